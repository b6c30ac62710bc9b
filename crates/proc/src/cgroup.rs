//! Lines of a process's or a thread's `cgroup`: cgroups(7).

/// A control group in one hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership<'a> {
    /// The hierarchy's controllers, separated by commas; empty for version 2.
    pub controllers: &'a str,
    /// The path of the group in its hierarchy.
    pub path: &'a str,
}

impl Membership<'_> {
    /// Returns true if the hierarchy has this controller; an empty name stands for version 2.
    pub fn has(&self, controller: &str) -> bool {
        self.controllers.split(',').any(|name| name == controller)
    }
}

/// Returns the groups in the text of a `cgroup`, one of each hierarchy; other lines are skipped.
pub fn memberships(text: &str) -> impl Iterator<Item = Membership<'_>> {
    text.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        Some(Membership { controllers, path })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_a_path_in_each_hierarchy() {
        let text = "4:cpu,cpuacct:/a:b\nnonsense\n1:name=systemd:/c\n0::/d.slice\n";
        let of = |controller: &str| {
            memberships(text).find(|group| group.has(controller)).map(|group| group.path.to_owned())
        };
        assert_eq!(
            ["cpu", "cpuacct", "", "cpuset"].map(of).map(Option::unwrap_or_default),
            ["/a:b", "/a:b", "/d.slice", ""]
        );
        assert_eq!(memberships(text).count(), 3);
    }
}

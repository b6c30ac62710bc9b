//! Test of the sandbox itself, from which an attack may not escape.

use sordino_tests::{Sandbox, Scene};

/// The attacker is the user `nobody`, without groups or capabilities; `/run`, the processes and the network are the
/// sandbox's own.
#[test]
fn an_attacker_has_no_rights_and_a_machine_of_its_own() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, "/bin/true");
    let ended = sandbox.run(
        "echo run: $(ls -A /run); echo net: $(grep -c : /proc/net/dev); echo self: $$; as_user id -u; as_user id -G
         as_user grep CapEff /proc/self/status; as_user touch mine; as_user touch \"$SCENE/roots\" || echo refused",
    );
    let printed: Vec<&str> = ended.succeeded().lines().collect();
    let expected = ["run:", "net: 1", "self: 1", "65534", "65534", "CapEff:\t0000000000000000", "refused"];
    assert_eq!(printed, expected);
    assert!(sandbox.home().join("mine").exists());
}

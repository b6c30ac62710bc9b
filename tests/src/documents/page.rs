//! A page of Markdown: its blocks, and the settings in front of them.

use std::time::Duration;

/// A page of the documentation.
#[derive(Debug)]
pub struct DocumentPage {
    /// File of the page, below the workspace's root.
    pub name: String,
    /// Blocks in the page's order.
    pub blocks: Vec<CodeBlock>,
}

/// A fenced block of a page.
#[derive(Debug)]
pub struct CodeBlock {
    /// Page and line of the opening fence.
    pub place: String,
    /// Use of the block in a run.
    pub role: BlockRole,
    pub(super) settings: BlockSettings,
}

/// Use of a block in a run.
#[derive(Debug, PartialEq, Eq)]
pub enum BlockRole {
    /// Commands that are run.
    Commands(Vec<String>),
    /// Text that is written to a file.
    File {
        /// File name, below the page's directory.
        name: String,
        /// Text of the file.
        text: String,
        /// True if the text is appended to an existing file.
        append: bool,
    },
    /// Output or a grammar.
    Text,
    /// A block that is not run, for this reason.
    Left(String),
}

/// Parts of commands, each with a setting for the commands that contain it.
pub(super) type ForCommands<T> = Vec<(String, T)>;

/// Settings from the comments in front of a block.
#[derive(Debug)]
pub(super) struct BlockSettings {
    not_run: Option<String>,
    file: Option<(String, bool)>,
    pub(super) directory: String,
    pub(super) needs: Vec<String>,
    pub(super) before: Vec<String>,
    pub(super) after: Vec<String>,
    pub(super) finally: Vec<String>,
    with: Vec<(String, String)>,
    pub(super) status: ForCommands<Vec<i32>>,
    pub(super) interrupt: ForCommands<String>,
    pub(super) limit: Duration,
    pub(super) output: Vec<String>,
    is_empty: bool,
}

impl Default for BlockSettings {
    fn default() -> Self {
        Self {
            not_run: None,
            file: None,
            directory: ".".to_owned(),
            needs: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
            finally: Vec::new(),
            with: Vec::new(),
            status: Vec::new(),
            interrupt: Vec::new(),
            limit: Duration::from_secs(100),
            output: Vec::new(),
            is_empty: true,
        }
    }
}

impl DocumentPage {
    /// Parses the text of the page `name`.
    ///
    /// # Errors
    /// The first invalid setting or block, with its location.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut lines = (1..).zip(text.lines());
        let (mut blocks, mut settings) = (Vec::new(), BlockSettings::default());
        while let Some((number, line)) = lines.next() {
            let place = format!("{name}:{number}");
            let wrong = |what: String| format!("{place}: {what}");
            let mut rest = lines.by_ref().map(|(_, line)| line);
            if let Some(comment) = line.trim().strip_prefix("<!--") {
                let text =
                    comment_from(comment, &mut rest).ok_or_else(|| wrong("a comment without end".into()))?;
                settings.set(&text).map_err(wrong)?;
            } else if let Some(language) = line.trim().strip_prefix("```") {
                let indent = line.len() - line.trim_start().len();
                let text =
                    block_from(indent, &mut rest).ok_or_else(|| wrong("a block without end".into()))?;
                let settings = std::mem::take(&mut settings);
                let role = settings.role(language, &text).map_err(wrong)?;
                blocks.push(CodeBlock { place, role, settings });
            } else if !line.trim().is_empty() && !settings.is_empty {
                return Err(wrong("settings, and no block behind them".to_owned()));
            }
        }
        Ok(Self { name: name.to_owned(), blocks })
    }
}

/// Returns the text of a comment that begins with `first`; `None` if it has no end.
fn comment_from<'a>(first: &str, rest: &mut impl Iterator<Item = &'a str>) -> Option<String> {
    let mut text = first.to_owned();
    loop {
        if let Some(text) = text.trim_end().strip_suffix("-->") {
            return Some(text.to_owned());
        }
        text.push('\n');
        text.push_str(rest.next()?);
    }
}

/// Returns the text of a block up to its closing fence, without the indentation of its opening one; `None` if it has no
/// end.
fn block_from<'a>(indent: usize, rest: &mut impl Iterator<Item = &'a str>) -> Option<String> {
    let mut text = String::new();
    loop {
        let line = rest.next()?;
        if line.trim() == "```" {
            return Some(text);
        }
        text.push_str(line.get(indent..).unwrap_or_default());
        text.push('\n');
    }
}

impl BlockSettings {
    fn set(&mut self, comment: &str) -> Result<(), String> {
        let (key, value) =
            comment.split_once(':').ok_or_else(|| format!("'{}' is no setting", comment.trim()))?;
        let value = value.trim();
        let lines = || value.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned);
        let pair = || {
            let pair =
                value.split_once(" = ").map(|(part, of)| (part.trim().to_owned(), of.trim().to_owned()));
            pair.ok_or_else(|| format!("'{value}' is not of the form PART = VALUE"))
        };
        let number = |text: &str| text.parse::<i32>().map_err(|_| format!("'{text}' is no number"));
        self.is_empty = false;
        match key.trim() {
            "not run" => self.not_run = Some(value.split_whitespace().collect::<Vec<_>>().join(" ")),
            "file" => self.file = Some((value.to_owned(), false)),
            "append" => self.file = Some((value.to_owned(), true)),
            "in" => self.directory = value.to_owned(),
            "needs" => self.needs.extend(value.split(',').map(|need| need.trim().to_owned())),
            "before" => self.before.push(value.to_owned()),
            "after" => self.after.push(value.to_owned()),
            "finally" => self.finally.push(value.to_owned()),
            "with" => self.with.push(pair()?),
            "status" => {
                let (part, statuses) = pair()?;
                self.status.push((part, statuses.split_whitespace().map(number).collect::<Result<_, _>>()?));
            }
            "interrupt" => self.interrupt.push(pair()?),
            "limit" => self.limit = Duration::from_secs(number(value)?.unsigned_abs().into()),
            "output" => self.output.extend(lines()),
            unknown => return Err(format!("'{unknown}' is no setting")),
        }
        Ok(())
    }

    fn role(&self, language: &str, text: &str) -> Result<BlockRole, String> {
        if let Some(reason) = &self.not_run {
            return if reason.is_empty() {
                Err("not run: why?".to_owned())
            } else {
                Ok(BlockRole::Left(reason.clone()))
            };
        }
        if let Some((name, append)) = self.file.clone() {
            return Ok(BlockRole::File { name, text: text.to_owned(), append });
        }
        match language {
            "text" => Ok(BlockRole::Text),
            "sh" => self.commands(text).map(BlockRole::Commands),
            _ => Err(format!(
                "a block of '{language}' is a file (<!-- file: NAME -->), or says why it is <!-- not run: REASON -->"
            )),
        }
    }

    /// Returns the commands of a block, one a line unless a backslash joins lines.
    fn commands(&self, text: &str) -> Result<Vec<String>, String> {
        let mut text = text.to_owned();
        for (words, others) in &self.with {
            if !text.contains(words.as_str()) {
                return Err(format!("'{words}' is not in the block"));
            }
            text = text.replace(words, others);
        }
        let joined = text.replace("\\\n", " ");
        let commands =
            joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let commands: Vec<String> = commands.map(str::to_owned).collect();
        let parts =
            self.status.iter().map(|(part, _)| part).chain(self.interrupt.iter().map(|(part, _)| part));
        let unused =
            parts.into_iter().find(|part| !commands.iter().any(|command| command.contains(part.as_str())));
        match unused {
            Some(part) => Err(format!("'{part}' is in no command of the block")),
            None if commands.is_empty() => Err("a block without a command".to_owned()),
            None => Ok(commands),
        }
    }
}

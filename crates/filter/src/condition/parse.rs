//! The parser: builds a tree from a condition's text.

use super::lexer::{ConditionToken, tokens};
use super::tree::{EventVariable, Node, Tree};
use crate::Invalid;
use sordino_event::Level;
use sordino_filter_vm::{Number, Operator, Relation};
use std::ops::Range;

/// The longest condition, in bytes.
const MAX_TEXT: usize = 4096;
/// The deepest nesting of parentheses and operators.
const MAX_NESTING: usize = 64;

pub(super) fn parse(text: &str) -> Result<Tree, Invalid> {
    if text.len() > MAX_TEXT {
        let message = format!("too long: {} bytes, at most {MAX_TEXT}", text.len());
        return Err(Invalid::new(0..text.len(), message));
    }
    let mut parser = ConditionParser { tokens: tokens(text)?, next: 0, nesting: 0 };
    let tree = parser.any()?;
    match parser.peek() {
        ConditionToken::End => Ok(tree),
        _ => Err(Invalid::new(parser.place(), "an operator is missing before this")),
    }
}

struct ConditionParser {
    tokens: Vec<(ConditionToken, Range<usize>)>,
    next: usize,
    nesting: usize,
}

/// The operators with two operands, and their precedence. Unlike in C, all bind tighter than comparisons.
const OPERATORS: [(&str, u8, Operator); 10] = [
    ("*", 6, Operator::Multiply),
    ("/", 6, Operator::Divide),
    ("%", 6, Operator::Remainder),
    ("+", 5, Operator::Add),
    ("-", 5, Operator::Subtract),
    ("<<", 4, Operator::ShiftLeft),
    (">>", 4, Operator::ShiftRight),
    ("&", 3, Operator::And),
    ("^", 2, Operator::Xor),
    ("|", 1, Operator::Or),
];

const RELATIONS: [(&str, Relation); 6] = [
    ("==", Relation::Equal),
    ("!=", Relation::Unequal),
    ("<", Relation::Less),
    ("<=", Relation::LessOrEqual),
    (">", Relation::Greater),
    (">=", Relation::GreaterOrEqual),
];

impl ConditionParser {
    fn peek(&self) -> &ConditionToken {
        self.tokens.get(self.next).map_or(&ConditionToken::End, |(token, _)| token)
    }

    /// Returns the place of the next token.
    fn place(&self) -> Range<usize> {
        self.tokens.get(self.next).or(self.tokens.last()).map_or(0..0, |(_, at)| at.clone())
    }

    /// Consumes the next token if it is this symbol.
    fn takes(&mut self, symbol: &str) -> bool {
        let is_next = matches!(self.peek(), ConditionToken::Symbol(next) if *next == symbol);
        self.next += usize::from(is_next);
        is_next
    }

    /// Returns `node` as a tree that spans from `start` to the last consumed token.
    fn tree(&self, start: usize, node: Node) -> Result<Tree, Invalid> {
        let end =
            self.next.checked_sub(1).and_then(|last| self.tokens.get(last)).map_or(start, |(_, at)| at.end);
        let tree = Tree::new(start..end, node);
        if tree.height > MAX_NESTING { Err(too_deep(tree.at)) } else { Ok(tree) }
    }

    fn any(&mut self) -> Result<Tree, Invalid> {
        self.series("||", Self::all, Node::Any)
    }

    fn all(&mut self) -> Result<Tree, Invalid> {
        self.series("&&", Self::comparison, Node::All)
    }

    /// Parses parts with `symbol` between them; a single part is returned as it is.
    fn series(
        &mut self,
        symbol: &str,
        part: fn(&mut Self) -> Result<Tree, Invalid>,
        node: fn(Vec<Tree>) -> Node,
    ) -> Result<Tree, Invalid> {
        let start = self.place().start;
        let mut parts = vec![part(self)?];
        while self.takes(symbol) {
            parts.push(part(self)?);
        }
        if parts.len() == 1 { Ok(parts.remove(0)) } else { self.tree(start, node(parts)) }
    }

    fn relation(&mut self) -> Option<Relation> {
        RELATIONS.into_iter().find(|(symbol, _)| self.takes(symbol)).map(|(_, relation)| relation)
    }

    fn comparison(&mut self) -> Result<Tree, Invalid> {
        let start = self.place().start;
        let left = self.arithmetic(0)?;
        let Some(relation) = self.relation() else { return Ok(left) };
        let right = self.arithmetic(0)?;
        let (left, right) = match (&left.node, &right.node) {
            (Node::Variable(EventVariable::Level), _) => (left, level(right)?),
            (_, Node::Variable(EventVariable::Level)) => (level(left)?, right),
            _ => (left, right),
        };
        let tree = self.tree(start, Node::Compare(relation, Box::new(left), Box::new(right)))?;
        let place = self.place();
        match self.relation() {
            None => Ok(tree),
            Some(_) => Err(Invalid::new(place, "one comparison at a time: connect two with &&")),
        }
    }

    /// Parses operands and the operators between them that bind tighter than `loosest`.
    fn arithmetic(&mut self, loosest: u8) -> Result<Tree, Invalid> {
        let start = self.place().start;
        let mut left = self.operand()?;
        loop {
            let next = OPERATORS
                .into_iter()
                .find(|(symbol, tightness, _)| *tightness > loosest && self.takes(symbol));
            let Some((_, tightness, operator)) = next else { return Ok(left) };
            let right = self.arithmetic(tightness)?;
            left = self.tree(start, Node::Apply(operator, Box::new(left), Box::new(right)))?;
        }
    }

    /// Parses an operand with the signs in front of it, or an expression in parentheses.
    fn operand(&mut self) -> Result<Tree, Invalid> {
        let place = self.place();
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(too_deep(place));
        }
        let tree = if self.takes("(") {
            self.parenthesised(place.start)?
        } else if let Some(prefix) = self.prefix() {
            let node = prefix(Box::new(self.operand()?));
            self.tree(place.start, node)?
        } else {
            self.single(place)?
        };
        self.nesting -= 1;
        Ok(tree)
    }

    fn prefix(&mut self) -> Option<fn(Box<Tree>) -> Node> {
        if self.takes("!") {
            Some(Node::Not)
        } else if self.takes("-") {
            Some(Node::Negate)
        } else if self.takes("~") {
            Some(Node::Complement)
        } else {
            None
        }
    }

    /// Parses the rest of a parenthesis that opens at `start`.
    fn parenthesised(&mut self, start: usize) -> Result<Tree, Invalid> {
        let tree = self.any()?;
        if self.takes(")") {
            return Ok(tree);
        }
        let message = match self.peek() {
            ConditionToken::End => {
                return Err(Invalid::new(
                    start..start + 1,
                    "the parenthesis that closes this one is missing",
                ));
            }
            _ => "an operator or ')' is missing before this",
        };
        Err(Invalid::new(self.place(), message))
    }

    fn single(&mut self, place: Range<usize>) -> Result<Tree, Invalid> {
        let node = match self.peek().clone() {
            ConditionToken::Number(number) => Node::Number(number),
            ConditionToken::Text(pattern) => Node::Text(pattern),
            ConditionToken::Variable(variable) => Node::Variable(variable),
            ConditionToken::Annotation(name) => Node::Annotation(name),
            ConditionToken::Counter(name) => Node::Counter(name),
            ConditionToken::Name(name) => {
                self.next += 1;
                let index = self.index()?;
                return self.tree(place.start, Node::Field { name, index });
            }
            ConditionToken::Symbol(_) | ConditionToken::End => {
                return Err(Invalid::new(place, "a field, a number, a text or '(' is missing here"));
            }
        };
        self.next += 1;
        self.tree(place.start, node)
    }

    /// Parses the index of an element, if there is one.
    fn index(&mut self) -> Result<Option<i128>, Invalid> {
        if !self.takes("[") {
            return Ok(None);
        }
        let &ConditionToken::Number(Number::Integer(index)) = self.peek() else {
            return Err(Invalid::new(self.place(), "an element's number is missing here: 0 is the first"));
        };
        self.next += 1;
        if self.takes("]") {
            return Ok(Some(index));
        }
        Err(Invalid::new(self.place(), "']' is missing here"))
    }
}

fn too_deep(at: Range<usize>) -> Invalid {
    Invalid::new(at, format!("nested too deeply: at most {MAX_NESTING} levels"))
}

/// Converts the operand that `$level` is compared with: a level's name, bare or as a text, becomes its number.
fn level(tree: Tree) -> Result<Tree, Invalid> {
    let (Node::Field { name, index: None } | Node::Text(name)) = &tree.node else { return Ok(tree) };
    match name.parse::<Level>() {
        Ok(level) => Ok(Tree::new(tree.at, Node::Number(Number::Integer(level.number().into())))),
        Err(_) => {
            let levels = Level::ALL.map(Level::name).join(", ");
            Err(Invalid::new(tree.at, format!("no level; there are {levels}")))
        }
    }
}

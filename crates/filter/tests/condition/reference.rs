//! Random records with their meaning, and random conditions with their truth by definition, in three-valued logic over
//! decoded values. Nothing is shared with the compiler and the machine.

use proptest::prelude::*;
use sordino_event::{Class, ClassId, Classes, Domain, Event, Field, Level, Range, Schema, Time, Value};
use std::cmp::Ordering;

/// A number, or `None` where there is none.
type OptionalNumber = Option<NumericValue>;

#[derive(Clone, Copy, Debug)]
enum NumericValue {
    Integer(i128),
    Float(f64),
}

impl NumericValue {
    fn float(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}

/// A record: its tracepoint, its bytes, and the values that a condition can test.
#[derive(Debug)]
pub(crate) struct TestableRecord {
    pub(crate) schema: Schema,
    pub(crate) payload: Vec<u8>,
    /// The same record as a reader decodes it.
    pub(crate) event: Event,
    /// The text of each number, its value, and true if its type is a floating-point one.
    numbers: Vec<(String, OptionalNumber, bool)>,
    texts: Vec<(String, String)>,
    /// The enumerations, each with the label that its value has.
    labels: Vec<(String, Option<&'static str>)>,
}

/// The seed of a field: its type, bits for its values, the number of values, a text.
pub(crate) type Seed = (usize, [u64; 3], usize, String);

const SCALARS: [&str; 13] =
    ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "u16n", "i32n", "u64n", "f32", "f64"];
const TYPES: usize = SCALARS.len() * 3;

pub(crate) fn seeds() -> impl Strategy<Value = Vec<Seed>> {
    let bits = prop_oneof![
        4 => 0..4_u64,
        1 => any::<u64>(),
        1 => Just(u64::MAX),
        1 => (0..200_u32).prop_map(|n| f64::from(n).to_bits()),
    ];
    let bits = [bits.clone(), bits.clone(), bits];
    proptest::collection::vec((0..TYPES + 4, bits, 0..4_usize, "[ab]{0,4}"), 1..7)
}

pub(crate) fn record(seeds: &[Seed]) -> TestableRecord {
    let schema = Schema {
        provider: "p".to_owned(),
        name: "e".to_owned(),
        level: Level::Info,
        location: None,
        fields: Vec::new(),
    };
    let (payload, numbers, texts, labels) = Default::default();
    let mut event = Event::default();
    event.begin(Time(0), ClassId::default());
    let mut record = TestableRecord { schema, payload, event, numbers, texts, labels };
    for (index, seed) in seeds.iter().enumerate() {
        record.add(format!("f{index}"), seed);
    }
    record
}

impl TestableRecord {
    /// Returns the class of the decoded event, which is the first of its recording.
    pub(crate) fn classes(&self) -> Classes {
        let mut classes = Classes::default();
        let fields = self.schema.fields.iter().map(|field| field.name.as_str());
        let class = Class::new(Domain::User, self.schema.full_name(), fields);
        classes.add(Class { level: Some(self.schema.level), ..class });
        classes
    }

    fn add(&mut self, name: String, (kind, bits, count, text): &Seed) {
        let ty = match kind - kind.min(&TYPES) {
            0 if *kind < TYPES => {
                let scalar = SCALARS[kind % SCALARS.len()];
                match kind / SCALARS.len() {
                    0 => {
                        self.scalar(scalar, &name, bits[0]);
                        scalar.to_owned()
                    }
                    1 => {
                        self.event.push(Value::List(2));
                        self.elements(scalar, &name, &bits[..2]);
                        format!("[{scalar};2]")
                    }
                    _ => {
                        self.payload.extend((*count as u16).to_ne_bytes());
                        self.event.push(Value::List(*count as u32));
                        self.elements(scalar, &name, &bits[..*count]);
                        format!("[{scalar}]")
                    }
                }
            }
            0 => {
                self.scalar("bool", &name, bits[0] % 3);
                "bool".to_owned()
            }
            1 => {
                self.texts.push((name.clone(), format!("{text}é")));
                self.payload.extend(format!("{text}é\0").bytes());
                self.event.push_text(format!("{text}é").as_bytes());
                "string".to_owned()
            }
            2 => {
                self.texts.push((name.clone(), text.clone()));
                self.payload.extend(text.bytes().chain(std::iter::repeat(0)).take(4));
                self.event.push_text(text.as_bytes());
                "text:4".to_owned()
            }
            _ => {
                let value = bits[0] % 6;
                let label = [Some("one"), Some("two"), Some("two"), Some("one"), None, None][value as usize];
                self.labels.push((name.clone(), label));
                let interned = label.map(|label| self.event.intern(label.as_bytes()));
                self.event.push(Value::Label(value as i64, interned));
                self.undecoded("u8", &name, value);
                "enum:u8".to_owned()
            }
        };
        let mut ty = ty.parse().unwrap();
        if let Some(enumeration) = sordino_event::Type::enumeration_mut(&mut ty) {
            let range = |label: &str, low, high| Range { label: label.to_owned(), low, high };
            enumeration.ranges = vec![range("one", 0, 0), range("two", 1, 2), range("one", 3, 3)];
        }
        self.schema.fields.push(Field { name, ty });
    }

    /// Adds the elements, and one that does not exist.
    fn elements(&mut self, scalar: &str, name: &str, bits: &[u64]) {
        for (index, bits) in bits.iter().enumerate() {
            self.scalar(scalar, &format!("{name}[{index}]"), *bits);
        }
        self.numbers.push((format!("{name}[{}]", bits.len()), None, scalar.starts_with('f')));
    }

    fn scalar(&mut self, scalar: &str, name: &str, bits: u64) {
        match self.undecoded(scalar, name, bits) {
            NumericValue::Integer(value) if value < 0 => self.event.push(Value::signed(value as i64)),
            NumericValue::Integer(value) => self.event.push(Value::unsigned(value as u64)),
            NumericValue::Float(value) => self.event.push(Value::Float(value)),
        }
    }

    fn undecoded(&mut self, scalar: &str, name: &str, bits: u64) -> NumericValue {
        macro_rules! integer {
            ($ty:ty, $bytes:ident) => {{ (NumericValue::Integer((bits as $ty).into()), (bits as $ty).$bytes().to_vec()) }};
        }
        let (number, bytes) = match scalar {
            "u8" => integer!(u8, to_ne_bytes),
            "u16" => integer!(u16, to_ne_bytes),
            "u32" => integer!(u32, to_ne_bytes),
            "u64" => integer!(u64, to_ne_bytes),
            "i8" => integer!(i8, to_ne_bytes),
            "i16" => integer!(i16, to_ne_bytes),
            "i32" => integer!(i32, to_ne_bytes),
            "i64" => integer!(i64, to_ne_bytes),
            "u16n" => integer!(u16, to_be_bytes),
            "i32n" => integer!(i32, to_be_bytes),
            "u64n" => integer!(u64, to_be_bytes),
            "bool" => (NumericValue::Integer((bits != 0).into()), vec![bits as u8]),
            "f32" => (
                NumericValue::Float(f32::from_bits(bits as u32).into()),
                (bits as u32).to_ne_bytes().to_vec(),
            ),
            _ => (NumericValue::Float(f64::from_bits(bits)), bits.to_ne_bytes().to_vec()),
        };
        self.numbers.push((name.to_owned(), Some(number), scalar.starts_with('f')));
        self.payload.extend(bytes);
        number
    }
}

/// Arithmetic whose leaves are chosen by number.
#[derive(Clone, Debug)]
pub(crate) enum Arithmetic {
    Constant(i64),
    Float(i8),
    Field(usize),
    Tid,
    Prefix(bool, Box<Self>),
    Apply(usize, Box<Self>, Box<Self>),
}

/// A condition whose leaves are chosen by number.
#[derive(Clone, Debug)]
pub(crate) enum Logic {
    Truth(Arithmetic),
    Compare(usize, Arithmetic, Arithmetic),
    Text(usize, bool, String),
    Label(usize, bool, bool),
    Not(Box<Self>),
    Series(bool, Vec<Self>),
}

const RELATIONS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];
const OPERATORS: [&str; 10] = ["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"];

fn constant() -> impl Strategy<Value = Arithmetic> {
    prop_oneof![2 => -1..4_i64, 1 => any::<i64>()].prop_map(Arithmetic::Constant)
}

fn arithmetic() -> impl Strategy<Value = Arithmetic> {
    let leaf = prop_oneof![
        2 => constant(),
        1 => any::<i8>().prop_map(Arithmetic::Float),
        6 => any::<usize>().prop_map(Arithmetic::Field),
        1 => Just(Arithmetic::Tid),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        let inner = inner.prop_map(Box::new);
        prop_oneof![
            (any::<bool>(), inner.clone()).prop_map(|(minus, part)| Arithmetic::Prefix(minus, part)),
            (0..OPERATORS.len(), inner.clone(), inner).prop_map(|(op, a, b)| Arithmetic::Apply(op, a, b)),
        ]
    })
}

pub(crate) fn logic() -> impl Strategy<Value = Logic> {
    let field = any::<usize>().prop_map(Arithmetic::Field);
    let leaf = prop_oneof![
        1 => arithmetic().prop_map(Logic::Truth),
        // The most common form of a condition.
        5 => (0..RELATIONS.len(), field, constant()).prop_map(|(relation, a, b)| Logic::Compare(relation, a, b)),
        5 => (0..RELATIONS.len(), arithmetic(), arithmetic()).prop_map(|(relation, a, b)| Logic::Compare(relation, a, b)),
        2 => (any::<usize>(), any::<bool>(), "[ab*?é]{0,4}").prop_map(|(i, like, pattern)| Logic::Text(i, like, pattern)),
        1 => (any::<usize>(), any::<bool>(), any::<bool>()).prop_map(|(i, like, one)| Logic::Label(i, like, one)),
    ];
    leaf.prop_recursive(3, 10, 3, |inner| {
        let several = proptest::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            inner.prop_map(|part| Logic::Not(Box::new(part))),
            (any::<bool>(), several).prop_map(|(all, parts)| Logic::Series(all, parts)),
        ]
    })
}

impl Arithmetic {
    /// Returns its text, its value, and true if its type is a floating-point one.
    fn of(&self, record: &TestableRecord, tid: u32) -> (String, OptionalNumber, bool) {
        match self {
            Self::Constant(value) => {
                (format!("({value})"), Some(NumericValue::Integer((*value).into())), false)
            }
            Self::Float(value) => {
                let value = f64::from(*value) / 4.0;
                (format!("({value:?})"), Some(NumericValue::Float(value)), true)
            }
            Self::Field(_) if record.numbers.is_empty() => {
                ("1".to_owned(), Some(NumericValue::Integer(1)), false)
            }
            Self::Field(index) => record.numbers[index % record.numbers.len()].clone(),
            Self::Tid => ("$tid".to_owned(), Some(NumericValue::Integer(tid.into())), false),
            Self::Prefix(minus, part) => {
                let (text, value, float) = part.of(record, tid);
                let sign = if *minus || float { "-" } else { "~" };
                let value = value.map(|value| match value {
                    NumericValue::Integer(value) if sign == "~" => NumericValue::Integer(-1 - value),
                    NumericValue::Integer(value) => NumericValue::Integer(0_i128.wrapping_sub(value)),
                    NumericValue::Float(value) => NumericValue::Float(-value),
                });
                (format!("{sign}({text})"), value, float)
            }
            Self::Apply(operator, left, right) => {
                let ((left, a, a_float), (right, b, b_float)) = (left.of(record, tid), right.of(record, tid));
                // Floating-point numbers have no bits to work on.
                let operator = OPERATORS[if a_float || b_float { operator % 5 } else { *operator }];
                let value = a.zip(b).and_then(|(a, b)| apply(operator, a, b));
                (format!("({left} {operator} {right})"), value, a_float || b_float)
            }
        }
    }
}

fn apply(operator: &str, a: NumericValue, b: NumericValue) -> OptionalNumber {
    if let (NumericValue::Integer(a), NumericValue::Integer(b)) = (a, b) {
        let shift = || (0..128).contains(&b).then_some(b as u32);
        return Some(NumericValue::Integer(match operator {
            "+" => a.wrapping_add(b),
            "-" => a.wrapping_sub(b),
            "*" => a.wrapping_mul(b),
            "/" if b != 0 => a.wrapping_div(b),
            "%" if b != 0 => a.wrapping_rem(b),
            "&" => a & b,
            "|" => a | b,
            "^" => a ^ b,
            "<<" => a << shift()?,
            ">>" => a >> shift()?,
            _ => return None,
        }));
    }
    let (a, b) = (a.float(), b.float());
    Some(NumericValue::Float(match operator {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" => a / b,
        _ => a % b,
    }))
}

fn compare(relation: &str, a: OptionalNumber, b: OptionalNumber) -> Option<bool> {
    let order = match (a?, b?) {
        (NumericValue::Integer(a), NumericValue::Integer(b)) => a.cmp(&b),
        (a, b) => a.float().partial_cmp(&b.float())?,
    };
    Some(match relation {
        "==" => order == Ordering::Equal,
        "!=" => order != Ordering::Equal,
        "<" => order == Ordering::Less,
        "<=" => order != Ordering::Greater,
        ">" => order == Ordering::Greater,
        _ => order != Ordering::Less,
    })
}

impl Logic {
    /// Returns its text, and true if it holds; `None` if that is undecidable.
    pub(crate) fn of(&self, record: &TestableRecord, tid: u32) -> (String, Option<bool>) {
        let equality = |like| if like { "==" } else { "!=" };
        match self {
            Self::Truth(part) => {
                let (text, value, _) = part.of(record, tid);
                (text, compare("!=", value, Some(NumericValue::Integer(0))))
            }
            Self::Compare(relation, left, right) => {
                let ((left, a, _), (right, b, _)) = (left.of(record, tid), right.of(record, tid));
                let relation = RELATIONS[*relation];
                (format!("{left} {relation} {right}"), compare(relation, a, b))
            }
            Self::Text(index, like, pattern) if !record.texts.is_empty() => {
                let (name, text) = &record.texts[index % record.texts.len()];
                let chars = |text: &str| text.chars().collect::<Vec<_>>();
                let holds = matches(&chars(pattern), &chars(text)) == *like;
                (format!("{name} {} \"{pattern}\"", equality(*like)), Some(holds))
            }
            Self::Label(index, like, one) if !record.labels.is_empty() => {
                let (name, label) = &record.labels[index % record.labels.len()];
                let compared = if *one { "one" } else { "two" };
                let holds = (*label == Some(compared)) == *like;
                (format!("{name} {} \"{compared}\"", equality(*like)), Some(holds))
            }
            Self::Text(..) | Self::Label(..) => ("1 < 2".to_owned(), Some(true)),
            Self::Not(part) => {
                let (text, holds) = part.of(record, tid);
                (format!("!({text})"), holds.map(|holds| !holds))
            }
            Self::Series(all, parts) => {
                let parts: Vec<_> = parts.iter().map(|part| part.of(record, tid)).collect();
                let texts: Vec<_> = parts.iter().map(|(text, _)| format!("({text})")).collect();
                // The result that decides: for all, a part that does not hold; for any, one that does.
                let decides = !all;
                let holds = if parts.iter().any(|(_, holds)| *holds == Some(decides)) {
                    Some(decides)
                } else if parts.iter().any(|(_, holds)| holds.is_none()) {
                    None
                } else {
                    Some(*all)
                };
                (texts.join(if *all { " && " } else { " || " }), holds)
            }
        }
    }
}

fn matches(pattern: &[char], text: &[char]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        (['*', rest @ ..], _) => (0..=text.len()).any(|taken| matches(rest, &text[taken..])),
        (['?', pattern @ ..], [_, text @ ..]) => matches(pattern, text),
        ([a, pattern @ ..], [b, text @ ..]) => a == b && matches(pattern, text),
        _ => false,
    }
}

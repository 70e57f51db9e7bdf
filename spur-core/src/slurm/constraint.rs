//! Features that a job asks of its nodes (`-C`, `--prefer`): `a100&ib`, `a100|h200`, `[rack1|rack2]`, `[a*2&b*4]`, `a*3`.
//!
//! As Slurm reads them: `&` and `|` bind equally and from left to right, a comma is `&`, parentheses do not nest, and there is
//! at most one pair of brackets. Between brackets, `|` means that all nodes share one of the alternatives, and `&` that so
//! many nodes have one and so many another. What stands in brackets comes on top of what stands outside.

use std::fmt;
use std::iter::Peekable;

/// The most feature names in one constraint.
pub const MAX_NAMES: usize = 64;

/// The longest constraint in bytes.
pub const MAX_LENGTH: usize = 4096;

/// Why a text is no constraint. Slurm tells users only `Invalid feature specification`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadConstraint {
    /// An operator without a feature before it.
    #[error("constraint has '{0}' without a feature before it")]
    NoFeature(char),
    /// Parentheses or brackets that do not pair, nest, or follow a feature.
    #[error("constraint has unbalanced or nested parentheses or brackets")]
    Unbalanced,
    /// A second pair of brackets.
    #[error("constraint has more than one pair of brackets")]
    Brackets,
    /// Text where an operator must be.
    #[error("constraint has {0:?} where '&' or '|' must be")]
    Unexpected(String),
    /// A count that is no positive number, or stands where none may.
    #[error("constraint has a count that is no positive number or does not follow a feature")]
    Count,
    /// A count outside brackets, with other features.
    #[error("constraint has a count outside brackets with more than one feature")]
    LooseCount,
    /// `[a&b]`.
    #[error("features that are joined by '&' between brackets need counts, as in [a*2&b*1]")]
    CountMissing,
    /// `[a*2|b]`.
    #[error("features that are joined by '|' between brackets have no counts")]
    CountInChoice,
    /// `[a|b&c]`.
    #[error("constraint mixes '&' and '|' between brackets")]
    Mixed,
    /// Too long, or too many names.
    #[error("constraint has more than {MAX_NAMES} features or {MAX_LENGTH} bytes")]
    TooMany,
}

/// How a feature joins what stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    And,
    Or,
}

/// One feature, or several in parentheses, each with how it joins the ones before; evaluated from left to right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    names: Vec<(Op, String)>,
}

impl Group {
    /// Whether a node with these features has what the group asks for.
    pub fn matches(&self, has: impl Fn(&str) -> bool) -> bool {
        chain(self.names.iter().map(|(op, name)| (*op, has(name))))
    }
}

/// From left to right, beginning with "yes".
fn chain(steps: impl Iterator<Item = (Op, bool)>) -> bool {
    steps.fold(true, |sum, (op, value)| match op {
        Op::And => sum && value,
        Op::Or => sum || value,
    })
}

/// What stands between brackets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Bracket {
    #[default]
    Nothing,
    /// All nodes have the same one.
    Same(Vec<Group>),
    /// So many nodes have this; each node counts once.
    Counts(Vec<(Group, u32)>),
}

/// A constraint. The empty one asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constraint {
    /// What every node must have.
    every: Vec<(Op, Group)>,
    bracket: Bracket,
}

impl Constraint {
    /// Whether a job with this constraint may use a node with these features at all: it has what every node must have and,
    /// where all nodes must share one of several alternatives, one of them.
    pub fn matches(&self, features: &[&str]) -> bool {
        self.matches_by(|name| features.contains(&name))
    }

    /// [`Self::matches`], for features in any form.
    pub fn matches_by(&self, has: impl Fn(&str) -> bool) -> bool {
        let each = self.every.iter();
        chain(each.map(|(op, group)| (*op, group.matches(&has))))
            && match &self.bracket {
                Bracket::Same(groups) => groups.iter().any(|group| group.matches(&has)),
                Bracket::Nothing | Bracket::Counts(_) => true,
            }
    }

    /// Alternatives of which all nodes of the job must have the same one; empty if there is no such choice.
    pub fn alternatives(&self) -> &[Group] {
        match &self.bracket {
            Bracket::Same(groups) => groups,
            Bracket::Nothing | Bracket::Counts(_) => &[],
        }
    }

    /// How many nodes at least must have what. A node counts for one of them only. Other nodes of the job need not have any.
    pub fn counts(&self) -> &[(Group, u32)] {
        match &self.bracket {
            Bracket::Counts(counts) => counts,
            Bracket::Nothing | Bracket::Same(_) => &[],
        }
    }

    /// Every feature that is named, in order, perhaps several times.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let every = self.every.iter().map(|(_, group)| group);
        let counted = self.counts().iter().map(|(group, _)| group);
        let groups = every.chain(self.alternatives()).chain(counted);
        groups.flat_map(|group| group.names.iter().map(|(_, name)| name.as_str()))
    }

    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.every.is_empty() && self.bracket == Bracket::Nothing
    }
}

/// What has a meaning in a constraint, and so is in no feature's name.
const MARKS: &[char] = &['&', ',', '|', '(', ')', '[', ']', '*'];

/// Why a text is no name of a feature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("feature {0:?}: a name has no blanks and none of &,|()[]*")]
pub struct BadName(String);

/// Checks the name of a feature, as configuration gives it.
pub fn check_name(name: &str) -> Result<(), BadName> {
    if name.is_empty() || name.contains(MARKS) || name.contains(char::is_whitespace) {
        return Err(BadName(name.to_owned()));
    }
    Ok(())
}

/// Reads a constraint. An operator at the very end counts for nothing, as in Slurm.
pub fn parse(text: &str) -> Result<Constraint, BadConstraint> {
    if text.len() > MAX_LENGTH {
        return Err(BadConstraint::TooMany);
    }
    let mut parser = Parser {
        tokens: tokens(text)?.into_iter().peekable(),
        names: 0,
    };
    let mut found = Constraint::default();
    let mut loose = false;
    let mut op = Op::And;
    while parser.tokens.peek().is_some() {
        if parser.takes(&Token::OpenBracket) {
            if found.bracket != Bracket::Nothing {
                return Err(BadConstraint::Brackets);
            }
            parser.bracket(&mut found, op)?;
        } else {
            let (group, count) = parser.counted()?;
            match count {
                Some(count) => {
                    loose = true;
                    found.bracket = Bracket::Counts(vec![(group, count)]);
                }
                None => found.every.push((op, group)),
            }
        }
        let Some(next) = parser.op()? else { break };
        op = next;
    }
    if parser.tokens.peek().is_some() {
        return Err(BadConstraint::Unbalanced);
    }
    if loose && parser.names > 1 {
        return Err(BadConstraint::LooseCount);
    }
    Ok(found)
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Name(String),
    And,
    Or,
    Open,
    Close,
    OpenBracket,
    CloseBracket,
    Times(u32),
}

fn tokens(text: &str) -> Result<Vec<Token>, BadConstraint> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let (token, next) = match c {
            '&' | ',' => (Token::And, after),
            '|' => (Token::Or, after),
            '(' => (Token::Open, after),
            ')' => (Token::Close, after),
            '[' => (Token::OpenBracket, after),
            ']' => (Token::CloseBracket, after),
            '*' => {
                let end = after.find(|c: char| !c.is_ascii_digit());
                let (digits, next) = after.split_at(end.unwrap_or(after.len()));
                let count = digits.parse().ok().filter(|count| *count > 0);
                (Token::Times(count.ok_or(BadConstraint::Count)?), next)
            }
            _ => {
                let (name, next) = rest.split_at(rest.find(MARKS).unwrap_or(rest.len()));
                (Token::Name(name.to_owned()), next)
            }
        };
        found.push(token);
        rest = next;
    }
    Ok(found)
}

struct Parser {
    tokens: Peekable<std::vec::IntoIter<Token>>,
    names: usize,
}

impl Parser {
    fn takes(&mut self, token: &Token) -> bool {
        self.tokens.next_if_eq(token).is_some()
    }

    /// What joins two features; `None` at the end, or before a closing mark.
    fn op(&mut self) -> Result<Option<Op>, BadConstraint> {
        match self.tokens.peek() {
            Some(Token::And) => {
                self.tokens.next();
                Ok(Some(Op::And))
            }
            Some(Token::Or) => {
                self.tokens.next();
                Ok(Some(Op::Or))
            }
            Some(Token::Name(name)) => Err(BadConstraint::Unexpected(name.clone())),
            Some(Token::Times(_)) => Err(BadConstraint::Count),
            Some(Token::Open | Token::OpenBracket) => Err(BadConstraint::Unbalanced),
            Some(Token::Close | Token::CloseBracket) | None => Ok(None),
        }
    }

    fn name(&mut self) -> Result<String, BadConstraint> {
        match self.tokens.next() {
            Some(Token::Name(name)) => {
                self.names += 1;
                if self.names > MAX_NAMES {
                    return Err(BadConstraint::TooMany);
                }
                Ok(name)
            }
            Some(Token::And) => Err(BadConstraint::NoFeature('&')),
            Some(Token::Or) => Err(BadConstraint::NoFeature('|')),
            Some(Token::Times(_)) => Err(BadConstraint::Count),
            Some(Token::Open | Token::Close | Token::OpenBracket | Token::CloseBracket) | None => {
                Err(BadConstraint::Unbalanced)
            }
        }
    }

    /// A name, or names in parentheses.
    fn group(&mut self) -> Result<Group, BadConstraint> {
        if !self.takes(&Token::Open) {
            let name = self.name()?;
            return Ok(Group {
                names: vec![(Op::And, name)],
            });
        }
        let mut names = vec![(Op::And, self.name()?)];
        while let Some(op) = self.op()? {
            names.push((op, self.name()?));
        }
        if self.takes(&Token::Close) {
            Ok(Group { names })
        } else {
            Err(BadConstraint::Unbalanced)
        }
    }

    /// A group and perhaps its count.
    fn counted(&mut self) -> Result<(Group, Option<u32>), BadConstraint> {
        let group = self.group()?;
        if let Some(Token::Times(count)) = self.tokens.peek() {
            let count = *count;
            self.tokens.next();
            return Ok((group, Some(count)));
        }
        Ok((group, None))
    }

    /// What stands between brackets, the first of which was read.
    fn bracket(&mut self, found: &mut Constraint, before: Op) -> Result<(), BadConstraint> {
        let mut parts = vec![self.counted()?];
        let mut ops = Vec::new();
        while let Some(op) = self.op()? {
            ops.push(op);
            parts.push(self.counted()?);
        }
        if !self.takes(&Token::CloseBracket) {
            return Err(BadConstraint::Unbalanced);
        }
        if ops.contains(&Op::And) && ops.contains(&Op::Or) {
            return Err(BadConstraint::Mixed);
        }
        if ops.contains(&Op::Or) {
            if parts.iter().any(|(_, count)| count.is_some()) {
                return Err(BadConstraint::CountInChoice);
            }
            let groups = parts.into_iter().map(|(group, _)| group);
            found.bracket = Bracket::Same(groups.collect());
            return Ok(());
        }
        if let [(group, None)] = parts.as_slice() {
            found.every.push((before, group.clone()));
            return Ok(());
        }
        let counts = parts
            .into_iter()
            .map(|(group, count)| Some((group, count?)))
            .collect::<Option<Vec<_>>>();
        found.bracket = Bracket::Counts(counts.ok_or(BadConstraint::CountMissing)?);
        Ok(())
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::And => "&",
            Self::Or => "|",
        })
    }
}

/// As a user would write it; of several features always in parentheses.
impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(_, name)] = self.names.as_slice() {
            return f.write_str(name);
        }
        for (at, (op, name)) in self.names.iter().enumerate() {
            let joint = if at == 0 {
                "(".to_owned()
            } else {
                op.to_string()
            };
            write!(f, "{joint}{name}")?;
        }
        f.write_str(")")
    }
}

/// As a user would write it, with the brackets at the end.
impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (op, group)) in self.every.iter().enumerate() {
            match at {
                0 => write!(f, "{group}")?,
                _ => write!(f, "{op}{group}")?,
            }
        }
        let parts: Vec<String> = match &self.bracket {
            Bracket::Nothing => return Ok(()),
            Bracket::Same(groups) => groups.iter().map(Group::to_string).collect(),
            Bracket::Counts(counts) => counts
                .iter()
                .map(|(group, count)| format!("{group}*{count}"))
                .collect(),
        };
        let joint = match self.bracket {
            Bracket::Same(_) => "|",
            Bracket::Nothing | Bracket::Counts(_) => "&",
        };
        let before = if self.every.is_empty() { "" } else { "&" };
        write!(f, "{before}[{}]", parts.join(joint))
    }
}

#[cfg(test)]
mod tests;

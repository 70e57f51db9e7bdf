//! The grammar of PMI's messages. PMI-1: a line, `cmd=get kvsname=1.0 key=a`. PMI-2: six digits of length, then
//! `cmd=kvs-get;key=a;`, in which a semicolon within a value is doubled. Every connection begins with a line.

/// Longest message of PMI-2, as in MPICH's client: bounds what a task can make its supervisor hold.
const MESSAGE_MAX: usize = 64 << 10;

/// Longest line of PMI-1. MPICH's own are below 1 KiB.
const LINE_MAX: usize = 16 << 10;

/// Digits of a length.
const DIGITS: usize = 6;

/// Which protocol a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Lines (PMI-1), and the first message of every connection.
    #[default]
    Lines,
    /// Lengths (PMI-2).
    Lengths,
}

/// A message, either way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Value of `cmd` (or of `mcmd`).
    pub command: String,
    /// The other pairs, in order.
    pub pairs: Vec<(String, Vec<u8>)>,
}

/// Bytes that are no message, and why; the connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken(pub &'static str);

impl Message {
    /// A message without pairs.
    pub fn new(command: &str) -> Self {
        Self {
            command: command.to_owned(),
            pairs: Vec::new(),
        }
    }

    /// The same with one pair more.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.pairs.push((key.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        let pair = self.pairs.iter().find(|(known, _)| known == key);
        pair.map(|(_, value)| value.as_slice())
    }

    /// The value of a key as a number.
    pub fn number(&self, key: &str) -> Option<i64> {
        std::str::from_utf8(self.get(key)?)
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    /// As it goes over the wire.
    pub fn encode(&self, dialect: Dialect) -> Vec<u8> {
        let (between, end): (&[u8], &[u8]) = match dialect {
            Dialect::Lines => (b" ", b"\n"),
            Dialect::Lengths => (b";", b";"),
        };
        let mut body = b"cmd=".to_vec();
        escape(self.command.as_bytes(), dialect, &mut body);
        for (key, value) in &self.pairs {
            body.extend_from_slice(between);
            escape(key.as_bytes(), dialect, &mut body);
            body.push(b'=');
            escape(value, dialect, &mut body);
        }
        body.extend_from_slice(end);
        match dialect {
            Dialect::Lines => body,
            Dialect::Lengths => [format!("{:DIGITS$}", body.len()).into_bytes(), body].concat(),
        }
    }
}

/// What a task sent in another form may hold what ends a word in this one: semicolons are doubled, and blanks
/// and ends of lines, which a line's words cannot hold, become `_`.
fn escape(text: &[u8], dialect: Dialect, body: &mut Vec<u8>) {
    for byte in text {
        match (dialect, byte) {
            (Dialect::Lines, b' ' | b'\n') => body.push(b'_'),
            (Dialect::Lengths, b';') => body.extend_from_slice(b";;"),
            (Dialect::Lines | Dialect::Lengths, byte) => body.push(*byte),
        }
    }
}

/// Cuts what a task sends into messages.
#[derive(Debug, Default)]
pub struct Decoder {
    dialect: Dialect,
    bytes: Vec<u8>,
}

impl Decoder {
    /// Which protocol comes.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Both sides have agreed on a protocol.
    pub fn speak(&mut self, dialect: Dialect) {
        self.dialect = dialect;
    }

    /// Takes bytes as they come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message; `None` when more bytes are needed.
    ///
    /// # Errors
    /// What came is no message, or too long for one.
    pub fn take(&mut self) -> Result<Option<Message>, Broken> {
        match self.dialect {
            Dialect::Lines => self.next_line(),
            Dialect::Lengths => self.next_counted(),
        }
    }

    fn next_line(&mut self) -> Result<Option<Message>, Broken> {
        // `mcmd=` begins a message of several lines (`MPI_Comm_spawn`).
        let several = self.bytes.starts_with(b"mcmd=");
        let end: &[u8] = if several { b"endcmd\n" } else { b"\n" };
        let found = self.bytes.windows(end.len()).position(|part| part == end);
        let Some(at) = found else {
            let fits = self.bytes.len() < LINE_MAX;
            return if fits {
                Ok(None)
            } else {
                Err(Broken("a line is too long"))
            };
        };
        let rest = self.bytes.split_off(at + end.len());
        let mut line = std::mem::replace(&mut self.bytes, rest);
        line.truncate(at);
        if line.len() > LINE_MAX {
            return Err(Broken("a line is too long"));
        }
        let words = line
            .split(|byte| *byte == b'\n' || *byte == b' ' && !several)
            .filter(|word| !word.is_empty());
        message(words.map(<[u8]>::to_vec)).map(Some)
    }

    fn next_counted(&mut self) -> Result<Option<Message>, Broken> {
        let Some(digits) = self.bytes.get(..DIGITS) else {
            return Ok(None);
        };
        let length = std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| digits.trim().parse::<usize>().ok());
        let length = length.ok_or(Broken("a message does not begin with its length"))?;
        if length > MESSAGE_MAX {
            return Err(Broken("a message is too long"));
        }
        if self.bytes.len() < DIGITS + length {
            return Ok(None);
        }
        let rest = self.bytes.split_off(DIGITS + length);
        let whole = std::mem::replace(&mut self.bytes, rest);
        message(separate(&whole[DIGITS..]).into_iter()).map(Some)
    }
}

/// Parts that single semicolons end; doubled ones stand for themselves.
fn separate(body: &[u8]) -> Vec<Vec<u8>> {
    let (mut parts, mut part) = (Vec::new(), Vec::new());
    let mut bytes = body.iter().peekable();
    while let Some(byte) = bytes.next() {
        if *byte != b';' || bytes.next_if(|next| **next == b';').is_some() {
            part.push(*byte);
        } else {
            parts.push(std::mem::take(&mut part));
        }
    }
    parts.push(part);
    parts.retain(|part| !part.is_empty());
    parts
}

fn message(words: impl Iterator<Item = Vec<u8>>) -> Result<Message, Broken> {
    let mut message = Message::default();
    for word in words {
        let mut halves = word.splitn(2, |byte| *byte == b'=');
        let key = halves.next().unwrap_or_default();
        let key = std::str::from_utf8(key).map_err(|_| Broken("a key is no text"))?;
        let value = halves.next().ok_or(Broken("a pair has no ="))?;
        if message.command.is_empty() {
            if !matches!(key, "cmd" | "mcmd") {
                return Err(Broken("a message does not begin with cmd="));
            }
            let command = std::str::from_utf8(value).map_err(|_| Broken("a command is no text"))?;
            message.command = command.to_owned();
        } else {
            message.pairs.push((key.to_owned(), value.to_vec()));
        }
    }
    if message.command.is_empty() {
        return Err(Broken("a message is empty"));
    }
    Ok(message)
}

//! The two places where a record may live: a file of `SQLite`, or a server of `PostgreSQL`. Statements are written once, in what both
//! understand, with parameters as `?1`; columns are of three kinds only: numbers of 64 bits, text, and bytes.

use postgres::fallible_iterator::FallibleIterator as _;
use postgres::types::{ToSql, Type};
use postgres::{Client, Config, NoTls, Statement};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode};
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

/// An open record.
pub(super) enum Db {
    /// A file.
    File(Connection),
    /// A server.
    Server(Box<Server>),
}

/// A connection to a server.
pub(super) struct Server {
    client: Client,
    prepared: HashMap<&'static str, Statement>,
}

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Int(i64),
    MaybeInt(Option<i64>),
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u32> for Value<'_> {
    fn from(value: u32) -> Self {
        Self::Int(value.into())
    }
}

impl From<Option<i64>> for Value<'_> {
    fn from(value: Option<i64>) -> Self {
        Self::MaybeInt(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(value)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self::Bytes(value)
    }
}

/// What a row has in a column.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cell {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A row of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row(Vec<Cell>);

impl Row {
    fn wrong(&self, at: usize) -> DbError {
        DbError::Column(format!("column {at} has {:?}", self.0.get(at)))
    }

    /// A number.
    pub(super) fn int(&self, at: usize) -> Result<i64, DbError> {
        self.maybe_int(at)?.ok_or_else(|| self.wrong(at))
    }

    /// A number that may be missing.
    pub(super) fn maybe_int(&self, at: usize) -> Result<Option<i64>, DbError> {
        match self.0.get(at) {
            Some(Cell::Int(value)) => Ok(Some(*value)),
            Some(Cell::Null) => Ok(None),
            Some(Cell::Text(_) | Cell::Bytes(_)) | None => Err(self.wrong(at)),
        }
    }

    /// Text.
    pub(super) fn text(&self, at: usize) -> Result<&str, DbError> {
        match self.0.get(at) {
            Some(Cell::Text(value)) => Ok(value),
            Some(Cell::Int(_) | Cell::Null | Cell::Bytes(_)) | None => Err(self.wrong(at)),
        }
    }

    /// Bytes.
    pub(super) fn bytes(&self, at: usize) -> Result<&[u8], DbError> {
        match self.0.get(at) {
            Some(Cell::Bytes(value)) => Ok(value),
            Some(Cell::Int(_) | Cell::Null | Cell::Text(_)) | None => Err(self.wrong(at)),
        }
    }
}

/// What went wrong.
#[derive(Debug)]
pub(in crate::usage) enum DbError {
    /// In the file.
    File(rusqlite::Error),
    /// At the server, and whether the connection is gone.
    Server(postgres::Error, bool),
    /// A column is not of the kind that it must be.
    Column(String),
}

impl DbError {
    /// A statement that returns a row returned none.
    pub(super) fn nothing() -> Self {
        Self::Column("a row that was just written is not there".to_owned())
    }

    /// The file is no database.
    pub(super) fn is_broken(&self) -> bool {
        match self {
            Self::File(error) => matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
            ),
            Self::Server(..) | Self::Column(_) => false,
        }
    }

    /// The connection is of no more use.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self, Self::Server(_, true))
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File(_) => "File",
            Self::Server(_) => "Server",
        })
    }
}

impl fmt::Display for DbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            // Its own words are only "db error": the reason is the server's.
            Self::Server(error, _) => match error.as_db_error() {
                Some(told) => f.write_str(told.message()),
                None => error.fmt(f),
            },
            Self::Column(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for DbError {}

impl From<rusqlite::Error> for DbError {
    fn from(error: rusqlite::Error) -> Self {
        Self::File(error)
    }
}

impl Db {
    /// Connects to a server and uses this schema of its.
    pub(super) fn connect(text: &str, schema: &str, within: Duration) -> Result<Self, DbError> {
        let lost = |error| DbError::Server(error, true);
        let mut config: Config = text.parse().map_err(lost)?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(within);
        }
        config.application_name("spurctld");
        let mut client = config
            .connect(NoTls)
            .map_err(|error| DbError::Server(error, true))?;
        let set = format!("SET search_path TO \"{schema}\"");
        client
            .batch_execute(&set)
            .map_err(|error| DbError::Server(error, true))?;
        Ok(Self::Server(Box::new(Server {
            client,
            prepared: HashMap::new(),
        })))
    }

    /// Whether what is committed from now on must outlive a power cut at once.
    pub(super) fn durable(&mut self, durable: bool) -> Result<(), DbError> {
        match self {
            Self::File(db) => {
                let mode = if durable { "FULL" } else { "NORMAL" };
                Ok(db.pragma_update(None, "synchronous", mode)?)
            }
            Self::Server(_) => {
                let mode = if durable { "on" } else { "off" };
                self.batch(&format!("SET synchronous_commit TO {mode}"))
            }
        }
    }

    /// Several statements without parameters.
    pub(super) fn batch(&mut self, sql: &str) -> Result<(), DbError> {
        match self {
            Self::File(db) => Ok(db.execute_batch(sql)?),
            Self::Server(server) => {
                let done = server.client.batch_execute(sql);
                done.map_err(|error| server.told(error))
            }
        }
    }

    /// Does something, all or nothing.
    pub(super) fn transaction<T, E: From<DbError>>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.batch("BEGIN")?;
        match work(self) {
            Ok(done) => {
                self.batch("COMMIT")?;
                Ok(done)
            }
            Err(why) => {
                // If even that fails, the connection is gone, and the transaction with it.
                self.batch("ROLLBACK").ok();
                Err(why)
            }
        }
    }

    /// Runs a statement; how many rows it changed.
    pub(super) fn run(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<u64, DbError> {
        match self {
            Self::File(db) => {
                let mut statement = db.prepare_cached(sql)?;
                bind(&mut statement, values)?;
                Ok(statement.raw_execute()? as u64)
            }
            Self::Server(server) => server.run(sql, values),
        }
    }

    /// Asks.
    pub(super) fn rows(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DbError> {
        let mut all = Vec::new();
        self.each(sql, values, |row| {
            all.push(row);
            Ok::<_, DbError>(true)
        })?;
        Ok(all)
    }

    /// Asks for one row.
    pub(super) fn row(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Option<Row>, DbError> {
        Ok(self.rows(sql, values)?.into_iter().next())
    }

    /// Asks, and hands over row by row until that says that it is enough.
    pub(super) fn each<E: From<DbError>>(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        mut take: impl FnMut(Row) -> Result<bool, E>,
    ) -> Result<(), E> {
        match self {
            Self::File(db) => {
                let mut statement = db.prepare_cached(sql).map_err(DbError::from)?;
                bind(&mut statement, values)?;
                let columns = statement.column_count();
                let mut rows = statement.raw_query();
                while let Some(row) = rows.next().map_err(DbError::from)? {
                    if !take(of_file(row, columns)?)? {
                        break;
                    }
                }
                Ok(())
            }
            Self::Server(server) => server.each(sql, values, take),
        }
    }
}

fn bind(statement: &mut rusqlite::Statement<'_>, values: &[Value<'_>]) -> Result<(), DbError> {
    for (at, value) in (1..).zip(values) {
        match value {
            Value::Int(value) => statement.raw_bind_parameter(at, value)?,
            Value::MaybeInt(value) => statement.raw_bind_parameter(at, value)?,
            Value::Text(value) => statement.raw_bind_parameter(at, value)?,
            Value::Bytes(value) => statement.raw_bind_parameter(at, value)?,
        }
    }
    Ok(())
}

fn of_file(row: &rusqlite::Row<'_>, columns: usize) -> Result<Row, DbError> {
    let cell = |at| {
        Ok(match row.get_ref(at)? {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(value) => Cell::Int(value),
            ValueRef::Text(value) => Cell::Text(String::from_utf8_lossy(value).into_owned()),
            ValueRef::Blob(value) => Cell::Bytes(value.to_vec()),
            ValueRef::Real(_) => return Err(DbError::Column(format!("column {at} is a fraction"))),
        })
    };
    (0..columns).map(cell).collect::<Result<_, _>>().map(Row)
}

impl Server {
    fn told(&self, error: postgres::Error) -> DbError {
        DbError::Server(error, self.client.is_closed())
    }

    fn run(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<u64, DbError> {
        let statement = match self.prepared.get(sql) {
            Some(known) => known.clone(),
            None => {
                let new = self.client.prepare(&sql.replace('?', "$"));
                let new = new.map_err(|error| self.told(error))?;
                self.prepared.insert(sql, new.clone());
                new
            }
        };
        let values = parameters(values);
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| &**value as _).collect();
        let done = self.client.execute(&statement, &values);
        done.map_err(|error| self.told(error))
    }

    fn each<E: From<DbError>>(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        mut take: impl FnMut(Row) -> Result<bool, E>,
    ) -> Result<(), E> {
        let values = parameters(values);
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| &**value as _).collect();
        let sql = sql.replace('?', "$");
        let rows = self.client.query_raw(&sql, values);
        let mut rows = rows.map_err(|error| DbError::Server(error, false))?;
        loop {
            match rows.next() {
                Ok(None) => return Ok(()),
                Ok(Some(row)) if take(of_server(&row)?)? => {}
                Ok(Some(_)) => return Ok(()),
                Err(error) => return Err(DbError::Server(error, false).into()),
            }
        }
    }
}

fn parameters<'a>(values: &[Value<'a>]) -> Vec<Box<dyn ToSql + Sync + 'a>> {
    let one = |value: &Value<'a>| -> Box<dyn ToSql + Sync + 'a> {
        match *value {
            Value::Int(value) => Box::new(value),
            Value::MaybeInt(value) => Box::new(value),
            Value::Text(value) => Box::new(value),
            Value::Bytes(value) => Box::new(value),
        }
    };
    values.iter().map(one).collect()
}

fn of_server(row: &postgres::Row) -> Result<Row, DbError> {
    let read = |error| DbError::Server(error, false);
    let cell = |(at, column): (usize, &postgres::Column)| {
        let kind = column.type_();
        Ok(if *kind == Type::INT8 {
            let value: Option<i64> = row.try_get(at).map_err(read)?;
            value.map_or(Cell::Null, Cell::Int)
        } else if *kind == Type::TEXT {
            let value: Option<String> = row.try_get(at).map_err(read)?;
            value.map_or(Cell::Null, Cell::Text)
        } else if *kind == Type::BYTEA {
            let value: Option<Vec<u8>> = row.try_get(at).map_err(read)?;
            value.map_or(Cell::Null, Cell::Bytes)
        } else {
            return Err(DbError::Column(format!("column {at} is of type {kind}")));
        })
    };
    row.columns()
        .iter()
        .enumerate()
        .map(cell)
        .collect::<Result<_, _>>()
        .map(Row)
}

//! Lists of jobs are put together and taken apart by hand: the bytes are those of the messages all the same.

use crate::generate;
use prost::Message;
use spur_core::api::{JobView, Refusal, Reply, Written};
use spur_proto::convert::BadMessage;
use spur_proto::{envelope, reply, wire};
use std::sync::Arc;

const MAX: usize = 64 << 20;

type Answer = Result<Reply, Refusal>;

/// What was sealed is opened again.
fn comes_back(sealed: &[u8], answer: &Answer) {
    let body = envelope::read_bytes(&mut &*sealed, MAX).unwrap();
    assert_eq!(reply::open(&body).unwrap().as_ref(), Ok(answer));
    assert_eq!(one_by_one(&body).unwrap(), *answer);
}

/// The same answer, of which jobs are read in turn; the first error if it is none.
fn one_by_one(body: &[u8]) -> Result<Answer, String> {
    let told = |why: BadMessage| why.to_string();
    let answer = reply::open_jobs(body.to_vec()).map_err(|e| e.to_string())?;
    let jobs = match answer {
        Ok(Ok(jobs)) => jobs,
        Ok(Err(reply)) => return Ok(Ok(reply)),
        Err(reply::Refused::No(refusal)) => return Ok(Err(refusal)),
        Err(reply::Refused::Bad(bad)) => return Err(told(bad)),
    };
    let mut rows = Vec::new();
    for row in jobs.rows() {
        rows.push(Arc::new(row.map_err(|e| e.to_string())?.map_err(told)?));
    }
    assert_eq!(jobs.is_empty(), rows.is_empty());
    Ok(Ok(Reply::Jobs(rows)))
}

/// Rows that the generator makes, half of which are told what only the one who answers knows.
fn rows(count: u64) -> Vec<Arc<JobView>> {
    let row = |seed| {
        let mut row: JobView = generate::value(seed, None);
        if seed % 2 == 0 {
            row.unavailable = Vec::new();
            row.expected = None;
        }
        row.written = Written::kept();
        Arc::new(row)
    };
    (0..count).map(row).collect()
}

#[test]
fn every_answer_comes_back() {
    for variant in 0..generate::variants::<Reply>() {
        for seed in 0..20 {
            let answer: Answer = Ok(generate::value(seed, Some(variant)));
            comes_back(&reply::seal(&answer, MAX).unwrap(), &answer);
        }
    }
    let refused: Answer = Err(generate::value(1, None));
    comes_back(&reply::seal(&refused, MAX).unwrap(), &refused);
}

#[test]
fn lists_of_jobs_are_as_the_messages_have_them_each_time() {
    for count in [0, 1, 2, 50] {
        let plain: Vec<Arc<JobView>> = rows(2 * count).into_iter().step_by(2).collect();
        let answer: Answer = Ok(Reply::Jobs(plain));
        let message = envelope::seal(&wire::CallReply::from(&answer), MAX).unwrap();
        for _ in 0..2 {
            assert_eq!(reply::seal(&answer, MAX).unwrap(), message);
        }
    }
}

#[test]
fn what_is_added_to_a_row_is_read_by_everybody_and_not_kept() {
    let rows = rows(40);
    let answer: Answer = Ok(Reply::Jobs(rows.clone()));
    let sealed = reply::seal(&answer, MAX).unwrap();
    comes_back(&sealed, &answer);
    let plainly: wire::CallReply = envelope::read(&mut sealed.as_slice(), MAX).unwrap();
    assert_eq!(Answer::try_from(plainly).unwrap(), answer);
    let other = |row: &Arc<JobView>| {
        Arc::new(JobView {
            unavailable: Vec::new(),
            expected: None,
            written: row.written.shared(),
            ..JobView::clone(row)
        })
    };
    let answer: Answer = Ok(Reply::Jobs(rows.iter().map(other).collect()));
    comes_back(&reply::seal(&answer, MAX).unwrap(), &answer);
}

#[test]
fn too_long_a_list_is_refused_and_a_cut_or_changed_one_is_an_error() {
    let answer: Answer = Ok(Reply::Jobs(rows(3)));
    let sealed = reply::seal(&answer, MAX).unwrap();
    let body = &sealed[4..];
    assert!(reply::seal(&answer, body.len()).is_ok());
    assert!(reply::seal(&answer, body.len() - 1).is_err());
    let is_it = |bytes: &[u8]| {
        let whole = matches!(reply::open(bytes), Ok(Ok(other)) if other == answer);
        assert_eq!(whole, one_by_one(bytes).is_ok_and(|other| other == answer));
        whole
    };
    for len in 0..body.len() {
        assert!(!is_it(&body[..len]), "cut at {len}");
    }
    let longer = [body, &[0xff]].concat();
    assert!(reply::open(&longer).is_err());
    assert!(one_by_one(&longer).is_err());
}

#[test]
fn a_row_that_says_too_little_is_named() {
    let row = wire::JobView {
        id: None,
        ..(&*rows(1)[0]).into()
    };
    let jobs = wire::call_answer::Jobs { items: vec![row] };
    let message = wire::CallReply {
        outcome: Some(wire::call_reply::Outcome::Answer(wire::CallAnswer {
            kind: Some(wire::call_answer::Kind::Jobs(jobs)),
        })),
    };
    let bytes = message.encode_to_vec();
    let told = reply::open(&bytes).unwrap().unwrap_err();
    let plainly = Answer::try_from(message).unwrap_err();
    assert_eq!(told, plainly);
    assert_eq!(one_by_one(&bytes).unwrap_err(), plainly.to_string());
}

proptest::proptest! {
    #[test]
    fn no_bytes_are_any_trouble(bytes: Vec<u8>) {
        let longer = [&[10, 3, 66, 1, 10][..], &bytes].concat();
        for bytes in [bytes, longer] {
            let _any = reply::open(&bytes);
            let _any = one_by_one(&bytes);
        }
    }
}

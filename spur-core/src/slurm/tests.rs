//! No bytes make any parser panic; what each grammar accepts is tested beside it.

use super::*;
use crate::resources::IdSet;
use crate::time::Millis;
use proptest::prelude::*;

fn read_with_everything(text: &str) {
    let _hosts = hostlist::parse(text).map(|hosts| hostlist::compress(&hosts));
    let _folded = hostlist::compress(&[text, text]);
    let _span = (timespec::parse_span(text), timespec::parse_limit(text));
    let _moment = timespec::begin::parse_begin(text, Millis(1_796_002_864_000), 3600);
    let _size = size::parse_mib(text);
    let _gpus = (gres::parse_gres(text), gres::parse_gpus(text));
    let _ids = text.parse::<IdSet>();
    let _signal = signal::parse(text);
    let _state = codes::parse_job_state(text);
    let _script = (
        directive::directives(text.as_bytes()),
        directive::check(text.as_bytes()),
    );
    let _env = export::apply(text, &[text.to_owned()]);
    let _target = (filename::Target::parse(text, 4), filename::per_task(text));
    let names = filename::Names {
        job: u32::MAX,
        array: None,
        step: crate::id::StepKind::Batch,
        task: 0,
        node: 0,
        host: text,
        name: text,
        user: text,
    };
    let _name = filename::expand(text, &names);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        read_with_everything(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_mix_of_their_marks_is_read_or_refused(text in "[0-9a-zA-Z\\[\\],:=%+./_@#'\"\\\\ \\-\t\n\0é]{0,24}") {
        read_with_everything(&text);
    }
}

#[test]
fn very_long_texts_are_no_trouble() {
    for mark in [
        "[", "]", ",", "-", ":", "9", "%", "\\", "\"", "#SBATCH ", "n[1-9]", "gpu:1,", "0-9,",
        "A=,",
    ] {
        read_with_everything(&mark.repeat(20_000));
    }
}

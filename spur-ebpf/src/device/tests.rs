use super::*;

fn bit(number: u16) -> GrantBit {
    GrantBit::new(number).unwrap()
}

#[test]
fn grants_survive_their_words() {
    let grants: Grants = [0, 1, 63, 64, 127, 511].map(bit).into_iter().collect();
    assert_eq!(Grants::from_words(&grants.to_words()), grants);
    assert_eq!(grants.to_words()[0], 1 | 2 | 1 << 63);
    assert_eq!(grants.to_words()[7], 1 << 63);
    assert!(GrantBit::new(512).is_none());
}

#[test]
fn a_table_that_cannot_be_meant_is_refused() {
    let number = |major, minor| DeviceNumber { major, minor };
    let refused = |change: &dyn Fn(&mut DeviceTable)| {
        let mut table = DeviceTable::new();
        change(&mut table);
        table.check().unwrap_err().to_string()
    };
    assert!(
        refused(&|t| {
            t.set_major(4096, MajorClass::Whole);
        })
        .contains("major 4096 is above 4095")
    );
    assert!(
        refused(&|t| {
            t.list(number(120, 0), Rule::Never);
        })
        .contains("major 120 is not fenced")
    );
    assert!(
        refused(&|t| {
            t.set_major(120, MajorClass::Whole)
                .list(number(120, 1 << 20), Rule::Never);
        })
        .contains("1048575")
    );
    assert!(
        refused(&|t| {
            t.deny_memory().list(number(1, 3), Rule::Never);
        })
        .contains("every program needs")
    );
    DeviceTable::new().deny_memory().check().unwrap();
}

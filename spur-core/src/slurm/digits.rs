//! Numbers in decimal digits, added to a text without one of their own: what long lists are mostly made of.

/// All pairs of digits, one behind the other.
const PAIRS: &str = "\
0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";

/// The two digits of a number below 100; of a greater one, of its last two.
fn pair(number: u64) -> &'static str {
    let at = usize::try_from(number % 100).unwrap_or(0) * 2;
    &PAIRS[at..at + 2]
}

/// Adds a number.
pub fn push(out: &mut String, number: u64) {
    if number < 10 {
        out.push_str(&pair(number)[1..]);
    } else if number < 100 {
        out.push_str(pair(number));
    } else {
        push(out, number / 100);
        out.push_str(pair(number));
    }
}

/// Adds the last two digits of a number, with zeros in front.
pub fn two(out: &mut String, number: u64) {
    out.push_str(pair(number));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(number: u64) -> String {
        let mut text = String::new();
        push(&mut text, number);
        text
    }

    #[test]
    fn numbers_are_written_as_the_library_does() {
        let powers = (0..20).map(|power| 10_u64.pow(power));
        let near = powers.flat_map(|power| [power - 1, power, power + 1]);
        let all = (0..1100).chain(near).chain([u64::MAX, u64::MAX - 1]);
        for number in all {
            assert_eq!(shown(number), number.to_string());
        }
    }

    #[test]
    fn two_digits_are_two() {
        for number in 0..100 {
            let mut text = String::new();
            two(&mut text, number);
            assert_eq!(text, format!("{number:02}"));
        }
    }
}

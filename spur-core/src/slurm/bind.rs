//! Which of its step's CPUs and GPUs a task gets: the words of `--cpu-bind` and `--gpu-bind`.

use crate::resources::IdSet;

/// How much of an item's number of repetitions is believed (`map_gpu:0*4`).
const TIMES_MAX: usize = 65_535;

/// Words before a binding that say how much is told of it.
const MANNERS: [&str; 4] = ["q", "quiet", "v", "verbose"];

/// How tasks are bound to CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuBind {
    /// Each to all of its step's, also where Slurm would look at sockets and NUMA nodes.
    All,
    /// Each to one, by its number on the node.
    Rank,
    /// Each to an equal part.
    Parts,
    /// Each to the CPUs of its entry, by the kernel's numbers; entries are used again when they run out.
    Sets(Vec<IdSet>),
}

impl CpuBind {
    /// Reads `[quiet|verbose,]KIND[:LIST]`. What is no kind binds to all.
    pub fn parse(text: &str) -> Self {
        let mut rest = text;
        while let Some((first, more)) = rest.split_once(',')
            && MANNERS
                .iter()
                .any(|known| first.eq_ignore_ascii_case(known))
        {
            rest = more;
        }
        let (kind, list) = rest.split_once([':', '=']).unwrap_or((rest, ""));
        match kind.to_ascii_lowercase().as_str() {
            "rank" => Self::Rank,
            "threads" | "thread" | "cores" | "core" => Self::Parts,
            "map_cpu" => sets(list, one).map_or(Self::All, Self::Sets),
            "mask_cpu" => sets(list, mask).map_or(Self::All, Self::Sets),
            _ => Self::All,
        }
    }

    /// What a task is told of its binding by `--cpu-bind=verbose`, up to the name of its node, as Slurm words it; `None` where it is not
    /// asked for. Whether anything is bound at all is not known here.
    pub fn told(text: &str) -> Option<String> {
        let mut words = text.split([',', ':', '=']);
        let asked =
            |word: &str| word.eq_ignore_ascii_case("v") || word.eq_ignore_ascii_case("verbose");
        if !words.any(asked) {
            return None;
        }
        let text = text.to_ascii_lowercase();
        let kind = text
            .split(',')
            .find(|word| !MANNERS.contains(word))
            .unwrap_or_default();
        let (units, kind) = match kind.split([':', '=']).next().unwrap_or_default() {
            "none" | "no" => ("", "NONE"),
            "threads" | "thread" => ("-threads", "MASK"),
            "cores" | "core" => ("-cores", "MASK"),
            "sockets" | "socket" => ("-sockets", "MASK"),
            "ldoms" | "ldom" => ("-ldoms", "MASK"),
            "map_cpu" => ("", "MAP "),
            "map_ldom" => ("", "LDMAP "),
            "mask_ldom" => ("", "LDMASK"),
            "rank_ldom" => ("", "LDRANK"),
            _ => ("", "MASK"),
        };
        Some(format!("cpu-bind{units}={kind}"))
    }

    /// The CPUs of a task, the `local`th of so many on its node, out of those of its step. What lies outside is left out; all where
    /// nothing would be left.
    pub fn of(&self, local: usize, tasks: usize, all: &[u32]) -> Vec<u32> {
        let own: Vec<u32> = match self {
            Self::All => Vec::new(),
            Self::Rank => all
                .iter()
                .copied()
                .cycle()
                .skip(local % all.len().max(1))
                .take(all.len().min(1))
                .collect(),
            Self::Parts => {
                let each = (all.len() / tasks.max(1)).max(1);
                let from = each * local % all.len().max(1);
                all.iter().copied().skip(from).take(each).collect()
            }
            Self::Sets(sets) => {
                let wanted = sets.get(local % sets.len().max(1));
                let wanted = |cpu: &&u32| wanted.is_some_and(|set| set.contains(**cpu));
                all.iter().filter(wanted).copied().collect()
            }
        };
        if own.is_empty() { all.to_vec() } else { own }
    }
}

/// The GPUs that a task sees by `SLURM_TRES_BIND`, the `local`th on its node, out of those of its step; `None` if it says nothing
/// of single tasks. Numbers count the step's GPUs. A task sees the first where its own would be none.
pub fn gpus(bind: &str, local: usize, all: &IdSet) -> Option<IdSet> {
    let kind = bind
        .split('+')
        .find_map(|part| part.strip_prefix("gres/gpu:"))?;
    let (_, kind) = manner(kind);
    let (kind, list) = kind.split_once(':')?;
    let positions: IdSet = match kind {
        "per_task" => {
            let each: u32 = list.parse().ok().filter(|each| *each > 0)?;
            let first = each.saturating_mul(u32::try_from(local).ok()?);
            (first..first.saturating_add(each))
                .take(all.len() as usize)
                .collect()
        }
        "single" => {
            let tasks: usize = list.parse().ok().filter(|tasks| *tasks > 0)?;
            let at = local / tasks % (all.len() as usize).max(1);
            std::iter::once(u32::try_from(at).ok()?).collect()
        }
        "map_gpu" | "map" => entry(list, one, local)?,
        "mask_gpu" | "mask" => entry(list, mask, local)?,
        _ => return None,
    };
    let own = (0..)
        .zip(all.iter())
        .filter(|(at, _)| positions.contains(*at));
    let own: IdSet = own.map(|(_, gpu)| gpu).collect();
    let first = || all.iter().take(1).collect();
    Some(if own.is_empty() && kind != "per_task" {
        first()
    } else {
        own
    })
}

/// Whether a task is to be told of its binding, and the binding.
fn manner(kind: &str) -> (bool, &str) {
    for word in ["verbose", "v"] {
        match kind.strip_prefix(word) {
            Some("") => return (true, ""),
            Some(rest) if rest.starts_with(',') => return (true, &rest[1..]),
            Some(_) | None => {}
        }
    }
    (false, kind)
}

/// What `--gpu-bind=verbose` tells a task that sees `own` of its step's GPUs: masks and lists over the GPUs of the node, and the
/// positions of its own among those of the step. `None` where it is not asked for.
pub fn gpus_told(bind: &str, own: &IdSet, all: &IdSet) -> Option<String> {
    let kind = bind
        .split('+')
        .find_map(|part| part.strip_prefix("gres/gpu:"))?;
    let (asked, kind) = manner(kind);
    if !asked || all.is_empty() {
        return None;
    }
    let usable = if kind.is_empty() || kind == "none" {
        "NULL".to_owned()
    } else {
        in_hex(own)
    };
    let positions = (0u32..)
        .zip(all.iter())
        .filter(|(_, gpu)| own.contains(*gpu));
    let list = |numbers: Vec<u32>| {
        let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
        words.join(",")
    };
    Some(format!(
        "gpu-bind: usable_gres={usable}; bit_alloc={}; local_inx={}; global_list={}; local_list={}",
        in_hex(all),
        all.len(),
        list(own.iter().collect()),
        list(positions.map(|(at, _)| at).collect()),
    ))
}

/// A set as a mask, `0x` and hexadecimal digits without zeros in front.
pub fn in_hex(set: &IdSet) -> String {
    let digits = set.iter().last().map_or(1, |last| last as usize / 4 + 1);
    let mut mask = vec![0u8; digits];
    for id in set.iter() {
        mask[id as usize / 4] |= 1 << (id % 4);
    }
    let digit = |bits: &u8| char::from_digit(u32::from(*bits), 16).unwrap_or('0');
    let digits: String = mask.iter().rev().map(digit).collect();
    format!("0x{}", digits.to_ascii_uppercase())
}

/// The entry of a task in a list whose entries are used again when they run out.
fn entry(list: &str, read: impl Fn(&str) -> Option<IdSet>, local: usize) -> Option<IdSet> {
    let sets = sets(list, read)?;
    sets.get(local % sets.len()).cloned()
}

/// `A,B*2`: the entries, at least one.
fn sets(list: &str, read: impl Fn(&str) -> Option<IdSet>) -> Option<Vec<IdSet>> {
    let mut sets = Vec::new();
    for word in list.split(',') {
        let (word, times) = word.split_once('*').unwrap_or((word, "1"));
        let times = times.parse::<usize>().ok()?;
        let times = times.min(TIMES_MAX.saturating_sub(sets.len()));
        sets.extend(std::iter::repeat_n(read(word)?, times));
    }
    Some(sets).filter(|sets| !sets.is_empty())
}

fn one(word: &str) -> Option<IdSet> {
    let number = word.strip_prefix("0x").map_or_else(
        || word.parse().ok(),
        |digits| u32::from_str_radix(digits, 16).ok(),
    );
    let number = number.filter(|number| *number <= IdSet::MAX)?;
    Some(std::iter::once(number).collect())
}

/// A mask in hexadecimal digits, the last of which stands for 0 to 3.
fn mask(word: &str) -> Option<IdSet> {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let mut set = IdSet::new();
    for (at, digit) in (0u32..).zip(digits.chars().rev()) {
        let bits = digit.to_digit(16)?;
        let bit = |bit: u32| {
            at.checked_mul(4)?
                .checked_add(bit)
                .filter(|id| *id <= IdSet::MAX)
        };
        for number in (0..4).filter(|n| bits & (1 << n) != 0) {
            set.insert(bit(number)?);
        }
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(text: &str, tasks: usize, all: &[u32]) -> Vec<Vec<u32>> {
        let bind = CpuBind::parse(text);
        (0..tasks).map(|local| bind.of(local, tasks, all)).collect()
    }

    #[test]
    fn tasks_get_the_cpus_that_were_asked_for() {
        let all = [4, 5, 6, 7];
        for text in ["none", "", "q,none", "sockets", "map_cpu:", "mask_cpu:zz"] {
            assert_eq!(cpus(text, 2, &all), [all, all], "{text}");
        }
        assert_eq!(cpus("rank", 3, &[4, 5]), [[4], [5], [4]]);
        assert_eq!(cpus("cores", 2, &all), [[4, 5], [6, 7]]);
        assert_eq!(cpus("v,threads", 3, &[4, 5]), [[4], [5], [4]]);
        assert_eq!(cpus("quiet,map_cpu:7,0x5", 3, &all), [[7], [5], [7]]);
        assert_eq!(
            cpus("mask_cpu:0x30,C0*2", 3, &all),
            [[4, 5], [6, 7], [6, 7]]
        );
        assert_eq!(cpus("map_cpu:1", 1, &all), [all], "what is not there");
        assert_eq!(cpus("rank", 1, &[]), [[0; 0]]);
        assert_eq!(cpus("cores", 1, &[]), [[0; 0]]);
    }

    #[test]
    fn bindings_are_told_where_they_are_asked_to_be() {
        for (text, told) in [
            ("verbose", "cpu-bind=MASK"),
            ("v,none", "cpu-bind=NONE"),
            ("threads,verbose", "cpu-bind-threads=MASK"),
            ("verbose,cores", "cpu-bind-cores=MASK"),
            ("Verbose,map_cpu:0,1", "cpu-bind=MAP "),
            ("v,mask_cpu:0x1", "cpu-bind=MASK"),
            ("v,rank", "cpu-bind=MASK"),
        ] {
            assert_eq!(CpuBind::told(text).as_deref(), Some(told), "{text}");
        }
        for text in ["", "none", "quiet,cores", "map_cpu:0,1"] {
            assert_eq!(CpuBind::told(text), None, "{text}");
        }
        let all: IdSet = [2, 3, 6].into_iter().collect();
        let own: IdSet = [3].into_iter().collect();
        assert_eq!(
            gpus_told("gres/gpu:verbose,single:1", &own, &all).as_deref(),
            Some(
                "gpu-bind: usable_gres=0x8; bit_alloc=0x4C; local_inx=3; global_list=3; local_list=1"
            )
        );
        let whole = gpus_told("gres/gpu:v", &all, &all).unwrap();
        assert!(
            whole.starts_with("gpu-bind: usable_gres=NULL; bit_alloc=0x4C;"),
            "{whole}"
        );
        for bind in ["", "gres/gpu:single:1", "gres/nic:verbose"] {
            assert_eq!(gpus_told(bind, &own, &all), None, "{bind}");
        }
        assert_eq!(
            gpus_told("gres/gpu:verbose", &IdSet::new(), &IdSet::new()),
            None
        );
    }

    #[test]
    fn tasks_see_the_gpus_that_were_asked_for() {
        let all: IdSet = [2, 3, 6].into_iter().collect();
        let seen = |bind: &str| -> Vec<String> {
            (0..4)
                .map(|local| {
                    gpus(bind, local, &all).map_or_else(|| "all".to_owned(), |set| set.to_string())
                })
                .collect()
        };
        assert_eq!(seen("gres/gpu:single:1"), ["2", "3", "6", "2"]);
        assert_eq!(seen("gres/gpu:verbose,single:2"), ["2", "2", "3", "3"]);
        assert_eq!(seen("gres/gpu:map_gpu:2,0*2"), ["6", "2", "2", "6"]);
        assert_eq!(seen("gres/gpu:mask_gpu:0x3,4"), ["2-3", "6", "2-3", "6"]);
        assert_eq!(
            seen("gres/gpu:map_gpu:9"),
            ["2"; 4],
            "the first instead of none"
        );
        assert_eq!(seen("gres/nic:x+gres/gpu:per_task:2"), ["2-3", "6", "", ""]);
        for bind in [
            "",
            "gres/gpu:closest",
            "gres/gpu:none",
            "gres/gpu:single:0",
            "gres/gpu:map_gpu:x",
        ] {
            assert_eq!(seen(bind), ["all"; 4], "{bind}");
        }
    }
}

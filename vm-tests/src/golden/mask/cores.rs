//! Which of a node's cores a job got is placement, and no interface: a job near its GPUs has other ones than one that Slurm spreads
//! over sockets. How many it has stays.

/// Makes all cores alike: those of the newer shapes, which list every core of a node, and those of `v0.0.40`, which names the taken ones
/// below their sockets.
pub(super) fn masked(text: &str) -> String {
    let text = text
        .replace("\"UNALLOCATED\"", "\"ALLOCATED\"")
        .replace("!!str UNALLOCATED", "!!str ALLOCATED");
    let mut masked = String::with_capacity(text.len());
    let mut open: Option<Sockets> = None;
    for line in text.split_inclusive('\n') {
        if let Some(sockets) = open.take_if(|sockets| indent(line) <= sockets.indent) {
            masked.push_str(&sockets.shown());
        }
        match &mut open {
            Some(sockets) => sockets.below.push_str(line),
            None => masked.push_str(line),
        }
        if open.is_none() && line.trim() == "\"sockets\": {" {
            let (indent, below) = (indent(line), String::new());
            open = Some(Sockets { indent, below });
        }
    }
    masked
}

/// `"sockets": {`, being read.
struct Sockets {
    indent: usize,
    below: String,
}

impl Sockets {
    /// How many cores are named; what is no list of cores as it is.
    fn shown(self) -> String {
        let is_core = |line: &&str| line.trim_end_matches(',').ends_with(": \"allocated\"");
        match self.below.lines().filter(is_core).count() {
            0 => self.below,
            cores => format!("{cores} cores\n"),
        }
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

//! Generic resources as users write them (`gpu:h200:2`) and as views show them (`gpu:h200:6(IDX:0-5)`).

use crate::resources::{Gpu, GpuCount, IdSet, Inventory};
use crate::slurm::digits;

/// Why a request for generic resources is refused before it is sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadGres {
    /// Not `gpu[:type][:count]`; Slurm's own words.
    #[error("Invalid generic resource (gres) specification")]
    Invalid,
    /// GPUs, but no right type or count of them; Slurm's own words.
    #[error("Invalid Trackable RESource (TRES) specification")]
    Count,
    /// Several models in one request.
    #[error("only one GPU type can be requested, not both {0:?} and {1:?}")]
    SeveralTypes(String, String),
}

/// `--gres`: a comma list of `[gres/]gpu[:type][:count]`; `none` and the empty text ask for nothing. Counts of the same model
/// add up; a count may end in `K`, `M` or `G` (of 1024). Types are lowered; whether a node has that type shows later.
pub fn parse_gres(text: &str) -> Result<Option<GpuCount>, BadGres> {
    if text.is_empty() || text.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let mut sum = None;
    for element in text.split(',') {
        let element = element
            .strip_prefix("gres/")
            .or_else(|| element.strip_prefix("gres:"))
            .unwrap_or(element);
        let spec = match element.strip_prefix("gpu") {
            Some("") => "",
            Some(rest) => rest
                .strip_prefix([':', '='])
                .ok_or(BadGres::Invalid)
                .and_then(|spec| {
                    if spec.is_empty() {
                        Err(BadGres::Count)
                    } else {
                        Ok(spec)
                    }
                })?,
            // None of what there is none of, which scripts that run everywhere ask for.
            None if is_none(element) => continue,
            None => return Err(BadGres::Invalid),
        };
        add(&mut sum, one(spec)?)?;
    }
    Ok(sum)
}

/// `--gpus`, `--gpus-per-node` and `--gpus-per-task`: a comma list of `[type:]count`, or a type alone for one of it.
pub fn parse_gpus(text: &str) -> Result<GpuCount, BadGres> {
    let mut sum = None;
    for element in text.split(',') {
        if element.is_empty() {
            return Err(BadGres::Count);
        }
        add(&mut sum, one(element)?)?;
    }
    sum.ok_or(BadGres::Count)
}

/// `name[:type]:0`.
fn is_none(element: &str) -> bool {
    let counted = element.rsplit_once(':');
    counted.is_some_and(|(name, count)| {
        name.starts_with(|c: char| c.is_ascii_alphabetic()) && number(count) == Some(0)
    })
}

fn add(sum: &mut Option<GpuCount>, more: GpuCount) -> Result<(), BadGres> {
    match sum {
        None => *sum = Some(more),
        Some(sum) if sum.model == more.model => {
            sum.count = sum.count.checked_add(more.count).ok_or(BadGres::Count)?;
        }
        Some(sum) => return Err(BadGres::SeveralTypes(sum.model.clone(), more.model)),
    }
    Ok(())
}

/// `[type][:count]`, either alone, or nothing for one of any type.
fn one(spec: &str) -> Result<GpuCount, BadGres> {
    let (model, count) = match spec.split_once(':') {
        Some(("", _)) => return Err(BadGres::Count),
        Some((model, count)) => (model, number(count).ok_or(BadGres::Count)?),
        None => number(spec).map_or((spec, 1), |count| ("", count)),
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let only_digits = !model.is_empty() && model.chars().all(|c| c.is_ascii_digit());
    if only_digits || model.starts_with('-') || !model.chars().all(legal) {
        return Err(BadGres::Count);
    }
    Ok(GpuCount {
        model: model.to_ascii_lowercase(),
        count,
    })
}

fn number(text: &str) -> Option<u32> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let factor: u32 = match unit {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u32>().ok()?.checked_mul(factor)
}

/// `gpu:2` or `gpu:h200:2`.
pub fn display(gpus: &GpuCount) -> String {
    let mut text = String::new();
    write(gpus, &mut text);
    text
}

/// Adds the same.
pub fn write(gpus: &GpuCount, out: &mut String) {
    out.push_str("gpu:");
    if !gpus.model.is_empty() {
        out.push_str(&gpus.model);
        out.push(':');
    }
    digits::push(out, gpus.count.into());
}

/// A node's GPUs by model, in order of first appearance: `gpu:h200:8`, `(null)` if it has none.
pub fn inventory(gpus: &[Gpu]) -> String {
    let all = models(gpus).into_iter().map(|(model, set)| {
        display(&GpuCount {
            model,
            count: set.len(),
        })
    });
    or_null(all.collect())
}

/// The same with the sockets that they sit on, where that is known of all of a model: `gpu:h200:8(S:0-1)`.
pub fn of_node(inventory: &Inventory) -> String {
    let gpus = &inventory.gpus;
    let domains = u32::try_from(inventory.cpus_by_numa.len()).unwrap_or(u32::MAX);
    let sockets = u64::from(inventory.sockets.max(1));
    // Several NUMA nodes may be on one socket.
    let socket = |gpu: &Gpu| {
        let numa = gpu.numa.filter(|numa| *numa < domains)?;
        u32::try_from(u64::from(numa) * sockets / u64::from(domains)).ok()
    };
    let all = models(gpus).into_iter().map(|(model, set)| {
        let of_model = gpus.iter().filter(|gpu| set.contains(gpu.index));
        let sockets: Option<IdSet> = of_model.map(socket).collect();
        let place = sockets.map(|sockets| format!("(S:{sockets})"));
        let count = set.len();
        display(&GpuCount { model, count }) + &place.unwrap_or_default()
    });
    or_null(all.collect())
}

/// Of a node's GPUs, those in `set`: `gpu:h200:6(IDX:0-5)`, also models of which none is in it: `gpu:h200:0(IDX:N/A)`.
pub fn with_index(gpus: &[Gpu], set: &IdSet) -> String {
    let used = models(gpus).into_iter().map(|(model, mut held)| {
        held = held.iter().filter(|index| set.contains(*index)).collect();
        let index = if held.is_empty() {
            "N/A".to_owned()
        } else {
            held.to_string()
        };
        format!(
            "{}(IDX:{index})",
            display(&GpuCount {
                model,
                count: held.len()
            })
        )
    });
    or_null(used.collect())
}

fn models(gpus: &[Gpu]) -> Vec<(String, IdSet)> {
    let mut models: Vec<(String, IdSet)> = Vec::new();
    for gpu in gpus {
        match models.iter_mut().find(|(model, _)| *model == gpu.model) {
            Some((_, set)) => {
                set.insert(gpu.index);
            }
            None => models.push((gpu.model.clone(), IdSet::from_iter([gpu.index]))),
        }
    }
    models
}

fn or_null(parts: Vec<String>) -> String {
    if parts.is_empty() {
        "(null)".to_owned()
    } else {
        parts.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::GpuVendor;
    use proptest::prelude::*;

    fn gpus(model: &str, count: u32) -> GpuCount {
        GpuCount {
            model: model.to_owned(),
            count,
        }
    }

    #[test]
    fn requests_are_read() {
        for (text, wanted) in [
            ("gpu", gpus("", 1)),
            ("gpu:2", gpus("", 2)),
            ("gpu:0", gpus("", 0)),
            ("gpu:h200", gpus("h200", 1)),
            ("gpu:H200:2", gpus("h200", 2)),
            ("gpu:2k", gpus("", 2048)),
            ("gpu:1g.5gb:3", gpus("1g.5gb", 3)),
            ("gres/gpu:2", gpus("", 2)),
            ("gres:gpu:2", gpus("", 2)),
            ("gpu:h200:1,gpu:h200:2", gpus("h200", 3)),
            ("gpu:1g.5gb", gpus("1g.5gb", 1)),
        ] {
            assert_eq!(parse_gres(text), Ok(Some(wanted)), "{text}");
        }
        assert_eq!(parse_gres("none"), Ok(None));
        let one = GpuCount {
            model: String::new(),
            count: 1,
        };
        for (text, wanted) in [("craynetwork:0", None), ("gpu:1,shard:x:0", Some(one))] {
            assert_eq!(
                parse_gres(text),
                Ok(wanted),
                "none of what there is none of: {text}"
            );
        }
        assert_eq!(parse_gres(""), Ok(None));
        for text in [
            "tpu:1",
            "gpu:",
            "gpux:1",
            "gpu:a:b",
            "gpu::2",
            "gpu:h200:",
            "gpu:1:2:3",
            "gpu:-1",
            "gpu:h200:-1",
            ",",
            "gpu:1,",
            "gpu:4294967296",
            "gpu:a:4g",
            "gpu:4294967295,gpu:1",
            "GPU:1",
            "gpu 1",
            "gpu:h200:1x",
            "2",
        ] {
            let why = if text.starts_with("gpu:") && text != "gpu:1," {
                BadGres::Count
            } else {
                BadGres::Invalid
            };
            assert_eq!(parse_gres(text), Err(why), "{text}");
        }
        let several = BadGres::SeveralTypes("h200".to_owned(), "a100".to_owned());
        assert_eq!(parse_gres("gpu:h200:1,gpu:a100:1"), Err(several));
    }

    #[test]
    fn gpu_counts_are_read() {
        for (text, wanted) in [
            ("2", gpus("", 2)),
            ("h200:2", gpus("h200", 2)),
            ("abc", gpus("abc", 1)),
            ("0", gpus("", 0)),
            ("1,2", gpus("", 3)),
        ] {
            assert_eq!(parse_gpus(text), Ok(wanted), "{text}");
        }
        for text in [
            "", ":", ":2", "h200:", "h200:x", "-1", "a:1:2", "1,,1", "a b",
        ] {
            assert_eq!(parse_gpus(text), Err(BadGres::Count), "{text}");
        }
    }

    #[test]
    fn nodes_gpus_are_shown_by_model() {
        let gpu = |index, model: &str| Gpu {
            index,
            vendor: GpuVendor::Simulated,
            model: model.to_owned(),
            uuid: String::new(),
            pci: String::new(),
            numa: None,
            memory_mib: 0,
            files: vec![],
            links: vec![],
            rail: None,
            parent: None,
        };
        let all = [
            gpu(0, "h200"),
            gpu(1, "h200"),
            gpu(2, "a100"),
            gpu(3, "h200"),
        ];
        assert_eq!(inventory(&all), "gpu:h200:3,gpu:a100:1");
        assert_eq!(inventory(&[gpu(0, "")]), "gpu:1");
        assert_eq!(inventory(&[]), "(null)");
        assert_eq!(
            with_index(&all, &IdSet::from_iter([0, 1])),
            "gpu:h200:2(IDX:0-1),gpu:a100:0(IDX:N/A)"
        );
        assert_eq!(with_index(&all[..2], &IdSet::new()), "gpu:h200:0(IDX:N/A)");
        let mut node = Inventory {
            sockets: 2,
            cpus_by_numa: vec![IdSet::new(); 4],
            gpus: all.to_vec(),
            ..Inventory::default()
        };
        assert_eq!(of_node(&node), "gpu:h200:3,gpu:a100:1");
        for (gpu, numa) in node.gpus.iter_mut().zip([0, 1, 3, 1]) {
            gpu.numa = Some(numa);
        }
        assert_eq!(of_node(&node), "gpu:h200:3(S:0),gpu:a100:1(S:1)");
        node.gpus[0].numa = Some(2);
        assert_eq!(of_node(&node), "gpu:h200:3(S:0-1),gpu:a100:1(S:1)");
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(model in "([a-z][a-z0-9_.-]{0,8})?", count in 0u32..100_000) {
            let wanted = GpuCount { model, count };
            prop_assert_eq!(parse_gres(&display(&wanted)), Ok(Some(wanted.clone())));
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC*", near in "(gpu|h200|[0-9:,k-]){0,12}") {
            for text in [text, near] {
                let _parsed = (parse_gres(&text), parse_gpus(&text));
            }
        }
    }
}

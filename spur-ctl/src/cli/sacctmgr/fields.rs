//! Fields of `sacctmgr list`: their names, what stands above them and how wide they are, as in Slurm.

use super::super::failure::Failure;
use super::super::table::{self, Column};

/// What a field shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Account,
    AdminLevel,
    Cluster,
    Comment,
    ControlHost,
    ControlPort,
    Coordinators,
    DefaultAccount,
    DefaultQos,
    Description,
    Flags,
    Id,
    Lineage,
    Name,
    Organization,
    ParentName,
    Partition,
    Priority,
    Qos,
    Rpc,
    Share,
    Type,
    User,
    /// Nothing of the kind is kept.
    Nothing,
    /// A limit by Slurm's name.
    Limit(&'static str),
}

/// A field: its name, the shortest beginning that is taken, header, width.
type Row = (&'static str, usize, &'static str, i32, Field);

/// Every field. Where one name begins another, the longer stands first.
const FIELDS: [Row; 73] = [
    ("Account", 3, "Account", 10, Field::Account),
    ("AccountName", 8, "Account", 10, Field::Account),
    ("AdminLevel", 2, "Admin", 9, Field::AdminLevel),
    ("Cluster", 2, "Cluster", 10, Field::Cluster),
    ("Clusters", 8, "Cluster", 10, Field::Cluster),
    ("Comment", 3, "Comment", 20, Field::Comment),
    ("ControlHost", 8, "ControlHost", 15, Field::ControlHost),
    ("ControlPort", 8, "ControlPort", 12, Field::ControlPort),
    ("Coordinators", 4, "Coord Accounts", 20, Field::Coordinators),
    ("DefaultAccount", 8, "Def Acct", 10, Field::DefaultAccount),
    ("DefaultQOS", 8, "Def QOS", 9, Field::DefaultQos),
    ("DefaultWCKey", 8, "Def WCKey", 10, Field::Nothing),
    ("Description", 3, "Descr", 20, Field::Description),
    ("Fairshare", 1, "Share", 9, Field::Share),
    ("Flags", 2, "Flags", 20, Field::Flags),
    ("GraceTime", 3, "GraceTime", 10, Field::Limit("GraceTime")),
    ("GrpCPUs", 7, "GrpCPUs", 8, Field::Limit("GrpTRES:cpu")),
    ("GrpJobs", 4, "GrpJobs", 7, Field::Limit("GrpJobs")),
    (
        "GrpJobsAccrue",
        8,
        "GrpJobsAccrue",
        13,
        Field::Limit("GrpJobsAccrue"),
    ),
    ("GrpMemory", 4, "GrpMem", 7, Field::Limit("GrpTRES:mem")),
    ("GrpNodes", 4, "GrpNodes", 8, Field::Limit("GrpTRES:node")),
    (
        "GrpSubmitJobs",
        4,
        "GrpSubmit",
        9,
        Field::Limit("GrpSubmitJobs"),
    ),
    ("GrpTRES", 4, "GrpTRES", 13, Field::Limit("GrpTRES")),
    (
        "GrpTRESMins",
        8,
        "GrpTRESMins",
        13,
        Field::Limit("GrpTRESMins"),
    ),
    (
        "GrpTRESRunMins",
        8,
        "GrpTRESRunMin",
        13,
        Field::Limit("GrpTRESRunMins"),
    ),
    ("GrpWall", 4, "GrpWall", 11, Field::Limit("GrpWall")),
    ("ID", 2, "ID", 6, Field::Id),
    (
        "LimitFactor",
        3,
        "LimitFactor",
        11,
        Field::Limit("LimitFactor"),
    ),
    ("Lineage", 3, "Lineage", -20, Field::Lineage),
    ("MaxCPUs", 7, "MaxCPUs", 8, Field::Limit("MaxTRES:cpu")),
    ("MaxJobs", 4, "MaxJobs", 7, Field::Limit("MaxJobs")),
    (
        "MaxJobsAccrue",
        8,
        "MaxJobsAccrue",
        13,
        Field::Limit("MaxJobsAccrue"),
    ),
    (
        "MaxJobsPA",
        9,
        "MaxJobsPA",
        9,
        Field::Limit("MaxJobsPerAccount"),
    ),
    (
        "MaxJobsPerAccount",
        11,
        "MaxJobsPA",
        9,
        Field::Limit("MaxJobsPerAccount"),
    ),
    (
        "MaxJobsPU",
        9,
        "MaxJobsPU",
        9,
        Field::Limit("MaxJobsPerUser"),
    ),
    (
        "MaxJobsPerUser",
        11,
        "MaxJobsPU",
        9,
        Field::Limit("MaxJobsPerUser"),
    ),
    ("MaxNodes", 4, "MaxNodes", 8, Field::Limit("MaxTRES:node")),
    (
        "MaxSubmitJobs",
        4,
        "MaxSubmit",
        9,
        Field::Limit("MaxSubmitJobs"),
    ),
    (
        "MaxSubmitPA",
        11,
        "MaxSubmitPA",
        11,
        Field::Limit("MaxSubmitJobsPerAccount"),
    ),
    (
        "MaxSubmitJobsPerAccount",
        17,
        "MaxSubmitPA",
        11,
        Field::Limit("MaxSubmitJobsPerAccount"),
    ),
    (
        "MaxSubmitPU",
        11,
        "MaxSubmitPU",
        11,
        Field::Limit("MaxSubmitJobsPerUser"),
    ),
    (
        "MaxSubmitJobsPerUser",
        17,
        "MaxSubmitPU",
        11,
        Field::Limit("MaxSubmitJobsPerUser"),
    ),
    ("MaxTRES", 4, "MaxTRES", 13, Field::Limit("MaxTRES")),
    (
        "MaxTRESMins",
        8,
        "MaxTRESMins",
        13,
        Field::Limit("MaxTRESMins"),
    ),
    (
        "MaxTRESPA",
        9,
        "MaxTRESPA",
        13,
        Field::Limit("MaxTRESPerAccount"),
    ),
    (
        "MaxTRESPerAccount",
        11,
        "MaxTRESPA",
        13,
        Field::Limit("MaxTRESPerAccount"),
    ),
    (
        "MaxTRESPerNode",
        11,
        "MaxTRESPerNode",
        14,
        Field::Limit("MaxTRESPerNode"),
    ),
    (
        "MaxTRESPU",
        9,
        "MaxTRESPU",
        13,
        Field::Limit("MaxTRESPerUser"),
    ),
    (
        "MaxTRESPerUser",
        11,
        "MaxTRESPU",
        13,
        Field::Limit("MaxTRESPerUser"),
    ),
    (
        "MaxTRESRunMinsPA",
        15,
        "MaxTRESRunMinsPA",
        16,
        Field::Limit("MaxTRESRunMinsPerAccount"),
    ),
    (
        "MaxTRESRunMinsPU",
        15,
        "MaxTRESRunMinsPU",
        16,
        Field::Limit("MaxTRESRunMinsPerUser"),
    ),
    ("MaxWall", 4, "MaxWall", 11, Field::Limit("MaxWall")),
    (
        "MaxWallDurationPerJob",
        8,
        "MaxWall",
        11,
        Field::Limit("MaxWall"),
    ),
    (
        "MinPrioThresh",
        4,
        "MinPrioThres",
        12,
        Field::Limit("MinPrioThresh"),
    ),
    ("MinTRES", 4, "MinTRES", 13, Field::Limit("MinTRES")),
    ("MinTRESPerJob", 8, "MinTRES", 13, Field::Limit("MinTRES")),
    ("Name", 2, "Name", 10, Field::Name),
    ("Organization", 1, "Org", 20, Field::Organization),
    ("ParentName", 7, "Par Name", 10, Field::ParentName),
    ("Partition", 4, "Partition", 10, Field::Partition),
    ("Preempt", 7, "Preempt", 10, Field::Limit("Preempt")),
    (
        "PreemptExemptTime",
        8,
        "PreemptExemptTime",
        19,
        Field::Limit("PreemptExemptTime"),
    ),
    (
        "PreemptMode",
        8,
        "PreemptMode",
        11,
        Field::Limit("PreemptMode"),
    ),
    ("Priority", 2, "Priority", 10, Field::Priority),
    ("QOS", 1, "QOS", 20, Field::Qos),
    ("QOSLevel", 4, "QOS", 20, Field::Qos),
    ("RPC", 1, "RPC", 5, Field::Rpc),
    ("Shares", 1, "Share", 9, Field::Share),
    ("Type", 2, "Type", 8, Field::Type),
    (
        "UsageFactor",
        6,
        "UsageFactor",
        11,
        Field::Limit("UsageFactor"),
    ),
    (
        "UsageThreshold",
        6,
        "UsageThres",
        10,
        Field::Limit("UsageThreshold"),
    ),
    ("User", 1, "User", 10, Field::User),
    ("WCKeys", 2, "WCKeys", 20, Field::Limit("WCKeys")),
];

/// A column and what it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) column: Column,
    pub(super) field: Field,
}

/// Reads a list of fields. An empty one shows nothing, as in Slurm.
pub(super) fn read(list: &str) -> Result<Vec<Shown>, Failure> {
    let mut shown = Vec::new();
    for (name, width) in table::fields(list) {
        let exact = FIELDS
            .iter()
            .find(|(full, ..)| full.eq_ignore_ascii_case(name));
        let begun = || {
            FIELDS
                .iter()
                .find(|(full, least, ..)| super::is(name, full, *least))
        };
        let unknown = || {
            let known = FIELDS.iter().map(|(full, ..)| *full);
            Failure::plain(format!("Unknown field '{name}'"), 1).nearest(name, known)
        };
        let (_, _, header, usual, field) = exact.or_else(begun).ok_or_else(unknown)?;
        shown.push(Shown {
            column: Column {
                header: (*header).to_owned(),
                width: width.unwrap_or(*usual),
            },
            field: *field,
        });
    }
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_be_short_and_have_widths() {
        let shown = read("acc%256,u,def%-12,grpj").unwrap_err();
        assert!(shown.text.contains("Unknown field 'def'"));
        let shown = read("acc%256,u,defaulta%-12,grpj").unwrap();
        let widths: Vec<i32> = shown.iter().map(|shown| shown.column.width).collect();
        assert_eq!(widths, [256, 10, -12, 7]);
        assert_eq!(shown[3].field, Field::Limit("GrpJobs"));
    }
}

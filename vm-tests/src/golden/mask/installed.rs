//! Keys of `scontrol show config` whose values say how a system is installed: by what its daemons are known, where they listen, where
//! their files are, and which plugins do the work. They cannot be the same in a system without munge, slurmdbd and plugins. What a
//! key says of how jobs are treated is compared.

/// Beginnings of such keys.
const KEYS: [&str; 30] = [
    "AccountingStorageHost",
    "AccountingStoragePort",
    "AccountingStorageType",
    "AuthInfo",
    "AuthType",
    "CommunicationParameters",
    "CredType",
    "HashPlugin",
    "JobAcctGatherType",
    "LogTimeFormat",
    "MailProg",
    "MaxDBDMsgs",
    "MaxJobCount",
    "MULTIPLE_SLURMD",
    "PluginDir",
    "PMIx",
    "PrEpPlugins",
    "ProctrackType",
    "SLURM_CONF",
    "SlurmUser",
    "SlurmctldLogFile",
    "SlurmctldPidFile",
    "SlurmctldPort",
    "SlurmdLogFile",
    "SlurmdParameters",
    "SlurmdPidFile",
    "SlurmdPort",
    "SlurmdSpoolDir",
    "StateSaveLocation",
    "TaskPlugin ",
];

/// Replaces the values of [`KEYS`].
pub(super) fn masked(text: &str) -> String {
    let line = |line: &str| match line.split_once(" = ") {
        Some((key, _)) if KEYS.iter().any(|own| key.starts_with(own)) => format!("{key} = *\n"),
        Some(_) | None => line.to_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}

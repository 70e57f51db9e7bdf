//! The rows, in the order of the research they come from.

use super::Row;
use super::Verdict::{Closed, Later, Limit, NeedsHardware};

/// How many there are.
pub const COUNT: usize = 42;

const fn row(title: &'static str, verdict: super::Verdict) -> Row {
    Row { title, verdict }
}

/// The issue that fences what runs outside jobs.
const NODE_FENCE: &str = "node fence: the issue on tenancy on the node";

/// Row N is at N - 1.
pub const ROWS: &[Row] = &[
    // A device that is open already.
    row(
        "an open descriptor is passed over a socket",
        Closed(&[
            "spur-ebpf::a_device_passed_over_a_socket_stays_with_its_job",
            "a_descriptor_does_not_pass_over_a_socket",
            "descriptors_pass_within_a_job",
        ]),
    ),
    row(
        "an open descriptor is copied by pidfd_getfd",
        Closed(&[
            "spur-ebpf::a_descriptor_is_not_taken_out_of_another_jobs_process",
            "a_descriptor_is_not_taken_from_another_process",
        ]),
    ),
    row(
        "a descriptor is inherited from whoever started the job",
        Closed(&[
            "spur-ebpf::a_descriptor_opened_before_joining_follows_the_policy",
            "nothing_open_is_inherited",
            "spur-agent::a_task_inherits_three_descriptors_only",
            "spur-agent::redirections_are_opened_inside_the_fence",
        ]),
    ),
    row(
        "a descriptor is opened again through /proc",
        Closed(&[
            "a_descriptor_is_not_taken_from_another_process",
            "every_way_to_a_refused_render_node_is_closed",
            "spur-ebpf::reopening_through_proc_is_refused",
        ]),
    ),
    row(
        "a GPU's buffer (dma-buf), which has no device number, is passed",
        Closed(&[
            "spur-ebpf::a_dma_buf_stays_with_its_job",
            "a_gpu_buffer_does_not_pass",
            "descriptors_pass_within_a_job",
        ]),
    ),
    row(
        "a process opens the device before it is fenced",
        Closed(&[
            "first_acts_are_refused",
            "spur-ebpf::the_first_act_of_a_job_is_refused_ten_thousand_times",
            "spur-agent::the_first_open_of_every_task_is_refused_unless_granted",
        ]),
    ),
    row(
        "a device is taken away while it is open",
        Closed(&[
            "spur-ebpf::mapping_an_open_device_follows_the_policy",
            "spur-ebpf::a_grant_taken_away_stops_a_loop_of_ioctls",
            "spur-agent::what_the_kernel_cannot_refuse_ends_the_job",
            "a_minor_that_changes_hands_leaves_its_holder",
            "spur-ebpf::a_device_that_goes_away_is_closed_for_its_holder",
            "spur-ebpf::a_policy_shrinks_and_grows_under_a_running_process",
        ]),
    ),
    // Leaving the fence, or laying another over it.
    row(
        "a process moves out of its job, or is started outside of it",
        Later(
            NODE_FENCE,
            &[
                "spur-ebpf::a_root_job_stays_in_its_control_group",
                "every_way_to_a_refused_render_node_is_closed",
            ],
        ),
    ),
    row(
        "a group below the job has a device program of its own",
        Closed(&[
            "spur-ebpf::a_nested_cgroup_with_its_own_program_stays_fenced",
            "spur-ebpf::a_second_program_on_the_fenced_cgroup_itself_opens_nothing",
            "spur-ebpf::a_program_above_that_would_vanish_or_forbid_is_named_before_a_job_is_fenced",
            "spur-ebpf::a_program_that_comes_above_later_takes_nothing_away",
            "spur-ebpf::runtimes_that_clear_a_cgroup_of_programs_cannot_clear_ours",
        ]),
    ),
    row(
        "systemd takes its programs off for a moment when it reloads",
        Closed(&[
            "systemd_reloads_and_changes_nothing",
            "spur-ebpf::programs_that_come_and_go_above_and_below_open_no_gap",
        ]),
    ),
    row(
        "systemd's reload takes a GPU away from its holder",
        Closed(&[
            "systemd_reloads_and_changes_nothing",
            "spur-ebpf::the_order_of_attaching_does_not_matter",
        ]),
    ),
    row(
        "the fence is said to be attached, and is not",
        Closed(&[
            "vm-tests::a_broken_fence_starts_no_job_and_says_why",
            "spur-agent::a_canary_that_is_not_refused_stops_the_step",
            "spur-ebpf::what_is_not_in_force_is_not_proven",
        ]),
    ),
    row(
        "a group takes no more than 64 programs",
        Closed(&[
            "spur-agent::jobs_that_come_and_go_leave_nothing",
            "spur-ebpf::the_kernels_limit_of_programs_is_named",
            "spur-ebpf::a_full_cgroup_below_does_not_matter",
            "jobs_leave_nothing",
        ]),
    ),
    row(
        "the fence goes with the agent that made it",
        Closed(&[
            "spur-agent::a_fence_that_root_takes_off_is_noticed_and_put_back",
            "spur-ebpf::a_root_job_takes_no_pin_away",
            "programs_detached_by_hand_come_back",
            "a_killed_agent_lets_nothing_through",
            "spur-ebpf::the_fence_outlives_a_killed_loader",
            "spur-ebpf::another_build_of_the_program_takes_over_without_a_gap",
            "spur-ebpf::a_newer_abi_takes_over_without_a_gap_and_without_a_refusal",
            "spur-ebpf::an_older_agent_does_not_touch_a_newer_fence",
        ]),
    ),
    row(
        "a job with privileges detaches, loads or attaches programs",
        Closed(&[
            "spur-agent::a_policy_that_root_widens_is_put_back",
            "spur-ebpf::bpf_and_rings_with_a_thread_are_no_jobs_business",
            "a_job_takes_no_fence_down",
            "spur-agent::a_task_of_root_lacks_what_takes_fences_down",
        ]),
    ),
    // Another node, another way.
    row(
        "a new node, or a link, or a mount, for the same device",
        Closed(&[
            "every_way_to_a_refused_render_node_is_closed",
            "mounts_and_overlays_lead_nowhere",
            "spur-ebpf::a_fenced_number_is_never_made_anew",
            "spur-ebpf::a_hard_link_a_symbolic_link_and_a_bind_mount_are_the_same_device",
        ]),
    ),
    row(
        "io_uring opens, by itself or by the kernel's polling thread",
        Closed(&[
            "spur-ebpf::bpf_and_rings_with_a_thread_are_no_jobs_business",
            "every_way_to_a_refused_render_node_is_closed",
            "a_ring_with_a_kernel_thread_opens_nothing",
            "spur-ebpf::io_uring_is_refused",
        ]),
    ),
    row(
        "a process of another job is traced, or its memory read",
        Closed(&[
            "spur-ebpf::another_jobs_process_is_out_of_reach",
            "a_job_next_door_is_not_traced",
        ]),
    ),
    row(
        "a process of one's own other job gets a signal",
        Limit(
            "Signals between a user's jobs",
            &[
                "spur-ebpf::signals_to_other_jobs_are_noted_or_refused",
                "signals_are_left_to_the_users",
            ],
        ),
    ),
    row(
        "physical memory, ports, VFIO, or a PCI device's BAR",
        Closed(&[
            "spur-ebpf::sysfs_gives_no_way_around_the_nodes",
            "raw_memory_is_refused_to_root_too",
            "the_files_of_a_pci_device_are_refused",
            "spur-ebpf::memory_is_never_granted_and_everyday_devices_are_free",
        ]),
    ),
    row(
        "a job repartitions, unbinds or resets a GPU in sysfs",
        Closed(&[
            "spur-ebpf::sysfs_gives_no_way_around_the_nodes",
            "the_files_of_a_pci_device_are_refused",
        ]),
    ),
    row(
        "a primary DRM node, with its modes and global names",
        Closed(&[
            "a_holder_has_no_primary_node",
            "every_way_to_a_refused_render_node_is_closed",
        ]),
    ),
    row(
        "a control node reaches GPUs that are others'",
        Limit(
            "What control nodes reveal",
            &[
                "a_gpu_is_granted_by_its_identity",
                "spur-agent::a_grant_has_the_gpus_own_nodes_and_its_vendors_controls_only",
            ],
        ),
    ),
    row(
        "peers: NVLink, RDMA, memory channels between nodes",
        Limit(
            "Peers and networks",
            &["spur-agent::classes_follow_proc_devices"],
        ),
    ),
    row(
        "a daemon outside the job acts for it (MPS, display, monitoring)",
        Later(NODE_FENCE, &[]),
    ),
    // The wrong number.
    row(
        "a minor number is another GPU's than it was",
        Closed(&[
            "spur-agent::swapped_minors_move_with_the_gpu_and_never_to_an_old_grant",
            "a_minor_that_changes_hands_leaves_its_holder",
            "a_gpu_is_granted_by_its_identity",
            "spur-agent::numbers_are_looked_up_again_and_go_with_the_gpu",
        ]),
    ),
    row(
        "a major number changes when a driver is loaded",
        Closed(&[
            "spur-agent::a_reloaded_module_has_another_major_and_the_old_one_is_nobodys",
            "a_driver_that_is_reloaded_gives_and_takes_by_identity",
            "spur-agent::classes_follow_proc_devices",
            "spur-agent::numbers_are_looked_up_again_and_go_with_the_gpu",
        ]),
    ),
    row(
        "MIG instances change under a grant",
        NeedsHardware(&[
            "spur-agent::a_gpu_that_is_partitioned_anew_is_closed_until_its_job_has_ended",
            "spur-agent::a_partitioning_while_no_agent_ran_is_noticed_by_the_numbers_in_the_table",
            "spur-agent::an_instance_that_was_destroyed_stays_closed_and_its_neighbours_do_not",
        ]),
    ),
    row(
        "AMD's partitions share an address, and number their nodes oddly",
        NeedsHardware(&[
            "spur-agent::partitions_are_gpus_with_render_nodes_of_their_own",
            "spur-agent::partitions_of_one_gpu_have_separate_grants",
        ]),
    ),
    row(
        "libraries number GPUs otherwise than the scheduler",
        Closed(&[
            "spur-core::each_vendor_gets_its_variables_and_the_others_lose_theirs",
            "vm-tests::a_job_reaches_its_own_gpus_in_every_way_and_no_other_in_any",
        ]),
    ),
    row(
        "KFD's own questions look like attacks",
        NeedsHardware(&[
            "spur-agent::kfd_s_questions_are_labelled_and_no_alarm",
            "spur-agent::a_flood_is_counted_whole_and_costs_little",
        ]),
    ),
    row(
        "a grant that grows does not reach a process that KFD knows",
        Limit("KFD decides once", &[]),
    ),
    // How long it lasts.
    row(
        "processes outlive their job",
        Closed(&[
            "what_ignores_signals_is_killed",
            "who_has_a_gpu_open_keeps_it_from_the_next_job",
        ]),
    ),
    row(
        "a new group is taken for an old one",
        Closed(&[
            "spur-ebpf::a_fence_that_was_lifted_leaves_no_policy_behind",
            "spur-ebpf::a_pin_of_another_cgroup_is_not_taken_for_ours",
        ]),
    ),
    row(
        "pins of groups that are gone stay",
        Closed(&[
            "spur-agent::jobs_that_come_and_go_leave_nothing",
            "spur-ebpf::pins_of_cgroups_that_are_gone_are_found_and_removed",
            "jobs_leave_nothing",
        ]),
    ),
    // Platforms.
    row(
        "version 1 and hybrid trees of control groups",
        Closed(&["vm-tests::a_job_reaches_its_own_gpus_in_every_way_and_no_other_in_any"]),
    ),
    row(
        "no BPF, no rights: the fence is quietly left out",
        Closed(&[
            "spur-agent::jobs_run_without_a_fence_only_where_none_is_required",
            "spur-agent::a_node_without_the_guard_that_it_requires_takes_no_job_and_says_why",
            "vm-tests::a_broken_fence_starts_no_job_and_says_why",
            "the_node_says_how_well_it_is_closed",
        ]),
    ),
    row(
        "lockdown, and kernels that list an LSM which they refuse",
        Closed(&[
            "spur-ebpf::what_the_kernel_does_not_take_is_said_plainly",
            "lockdown_is_lived_with_or_said",
            "the_node_says_how_well_it_is_closed",
        ]),
    ),
    row(
        "verifiers and helpers differ between kernels",
        Closed(&[
            "the_node_says_how_well_it_is_closed",
            "a_granted_render_node_answers",
            "spur-ebpf::the_verifier_has_no_more_to_do_than_its_budget",
        ]),
    ),
    row(
        "devices in user space, overlays, mounts of a namespace",
        Closed(&[
            "mounts_and_overlays_lead_nowhere",
            "a_gpu_is_granted_by_its_identity",
        ]),
    ),
    row(
        "everyday devices are refused as well",
        Closed(&[
            "everyday_devices_are_free",
            "spur-ebpf::memory_is_never_granted_and_everyday_devices_are_free",
        ]),
    ),
    row(
        "a refusal is an error that nobody understands",
        Closed(&[
            "spur-ctl::explain_says_what_it_means",
            "a_refusal_is_reported",
            "vm-tests::a_refusal_is_shown_to_its_owner_and_to_operators_only",
        ]),
    ),
];

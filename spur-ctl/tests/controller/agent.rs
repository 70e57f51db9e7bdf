//! An agent that speaks the protocol and runs nothing. Tests see its orders and decide what it reports.

use crate::process::{Controller, PATIENCE, TOKEN};
use spur_core::agent::order::{FromAgent, JobOrder, Report, StepOrder, ToAgent};
use spur_core::event::NodeHello;
use spur_core::id::{Generation, JobId, NodeName, StepKind};
use spur_core::job::state::ExitStatus;
use spur_core::node::FenceState;
use spur_core::resources::{Gpu, GpuVendor, Inventory};
use spur_core::time::Millis;
use spur_proto::client::channel_over;
use spur_proto::wire::link_client::LinkClient;
use spur_proto::wire::{AgentMessage, ControllerMessage};
use std::path::{Path, PathBuf};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

/// One connection of one node.
pub(crate) struct Agent {
    out: mpsc::Sender<AgentMessage>,
    orders: Streaming<ControllerMessage>,
    next_report: u64,
}

/// What a node of 8 GPUs says of itself.
pub(crate) fn hello(name: &str) -> NodeHello {
    let gpu = |index| Gpu {
        index,
        vendor: GpuVendor::Simulated,
        model: "h200".into(),
        uuid: format!("{name}-{index}"),
        pci: String::new(),
        numa: None,
        memory_mib: 1000,
        files: vec![],
        links: vec![],
        rail: None,
        parent: None,
    };
    NodeHello {
        name: NodeName::new(name).unwrap(),
        inventory: Inventory {
            cpus: 64,
            sockets: 1,
            cores_per_socket: 64,
            threads_per_core: 1,
            memory_mib: 100_000,
            gpus: (0..8).map(gpu).collect(),
            simulated: true,
            cpus_by_numa: Vec::new(),
            features: Vec::new(),
        },
        boot_id: "boot".into(),
        boot_time: Millis(1),
        agent_start: Millis(2),
        fence: FenceState::Fenced,
        fence_note: String::new(),
        version: "test".into(),
        os: "Linux".into(),
        hostname: name.into(),
        address: format!("unix:/nowhere/{name}"),
        jobs: vec![],
        fence_suffices: None,
        gpus_sick: None,
        gpu_notes: Vec::new(),
        keeps_gpus: Some(true),
        stuck: Vec::new(),
    }
}

/// Connects as soon as the controller listens: it opens this socket after the one that says that it is up.
pub(crate) async fn dial(socket: &Path) -> UnixStream {
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        match UnixStream::connect(socket).await {
            Ok(stream) => return stream,
            Err(why) => assert!(
                tokio::time::Instant::now() < end,
                "{}: {why}",
                socket.display()
            ),
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

impl Agent {
    /// Connects as this node and waits for the welcome.
    pub(crate) async fn connect(controller: &Controller, name: &str) -> (Self, Welcome) {
        Self::connect_with(controller, TOKEN, hello(name))
            .await
            .unwrap()
    }

    pub(crate) async fn connect_with(
        controller: &Controller,
        token: &str,
        hello: NodeHello,
    ) -> Result<(Self, Welcome), Status> {
        let socket: PathBuf = controller.dir.join("agent.sock");
        Self::connect_over(dial(&socket).await, token, hello).await
    }

    /// The same on a connection that is there.
    pub(crate) async fn connect_over(
        stream: UnixStream,
        token: &str,
        hello: NodeHello,
    ) -> Result<(Self, Welcome), Status> {
        let channel = channel_over(stream).await.unwrap();
        let (out, messages) = mpsc::channel(1024);
        let greeting = FromAgent::Hello {
            token: token.to_owned(),
            hello,
        };
        out.send(AgentMessage::from(&greeting)).await.unwrap();
        let mut client = LinkClient::new(channel).max_decoding_message_size(64 << 20);
        let orders = client
            .connect(ReceiverStream::new(messages))
            .await?
            .into_inner();
        let mut agent = Self {
            out,
            orders,
            next_report: 1,
        };
        match agent.next().await {
            ToAgent::Welcome { jobs, steps, .. } => Ok((agent, Welcome { jobs, steps })),
            other => panic!("expected a welcome: {other:?}"),
        }
    }

    /// The next order; `None` when the stream has ended.
    pub(crate) async fn maybe_next(&mut self) -> Option<ToAgent> {
        let message = tokio::time::timeout(PATIENCE, self.orders.message())
            .await
            .expect("an order in time");
        message
            .ok()
            .flatten()
            .map(|message| message.try_into().unwrap())
    }

    pub(crate) async fn next(&mut self) -> ToAgent {
        self.maybe_next().await.expect("the stream goes on")
    }

    /// The next order that is not an acknowledgement.
    pub(crate) async fn order(&mut self) -> ToAgent {
        loop {
            match self.next().await {
                ToAgent::Ack { .. } => {}
                order => return order,
            }
        }
    }

    pub(crate) async fn assigned(&mut self) -> JobOrder {
        match self.order().await {
            ToAgent::Assign(order) => order,
            other => panic!("expected a job: {other:?}"),
        }
    }

    pub(crate) async fn launched(&mut self) -> StepOrder {
        match self.order().await {
            ToAgent::Launch(order) => order,
            other => panic!("expected a step: {other:?}"),
        }
    }

    pub(crate) async fn revoked(&mut self) -> (JobId, Generation) {
        match self.order().await {
            ToAgent::Revoke { job, generation } => (job, generation),
            other => panic!("expected the end of a job: {other:?}"),
        }
    }

    pub(crate) async fn say(&self, word: FromAgent) {
        self.out.send(AgentMessage::from(&word)).await.unwrap();
    }

    /// Reports a fact and gives its number.
    pub(crate) async fn report(&mut self, report: Report) -> u64 {
        let number = self.next_report;
        self.next_report += 1;
        self.say(FromAgent::Report { number, report }).await;
        number
    }

    /// Reports, and waits until that is durable.
    pub(crate) async fn report_durably(&mut self, report: Report) {
        let number = self.report(report).await;
        loop {
            if let ToAgent::Ack { report } = self.next().await
                && report >= number
            {
                return;
            }
        }
    }

    pub(crate) async fn step_ended(
        &mut self,
        job: JobId,
        step: StepKind,
        generation: Generation,
        code: u8,
    ) {
        let exit = ExitStatus { code, signal: 0 };
        self.report(Report::StepEnded {
            job,
            step,
            generation,
            exit,
            oom: false,
        })
        .await;
    }

    pub(crate) async fn cleaned(&mut self, job: JobId, generation: Generation) {
        self.report(Report::Cleaned { job, generation }).await;
    }
}

/// What a welcome holds.
pub(crate) struct Welcome {
    pub(crate) jobs: Vec<JobOrder>,
    pub(crate) steps: Vec<StepOrder>,
}

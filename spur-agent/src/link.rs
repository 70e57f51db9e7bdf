//! The stream to the controller: dialled again and again, for as long as the agent lives.

use crate::agent::Input;
use spur_core::agent::order::{FromAgent, ToAgent};
use spur_proto::client::channel_over;
use spur_proto::wire;
use spur_proto::wire::link_client::LinkClient;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

/// Messages on their way out; when they do not go, the link is given up.
pub const OUT_MAX: usize = 1024;

/// Longest message from the controller: a batch script with its environment.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// First and longest pause between two attempts.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Why a link ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("cannot connect: {0}")]
    Connect(std::io::Error),
    #[error("cannot speak: {0}")]
    Transport(#[from] tonic::transport::Error),
    #[error("{}", .0.message())]
    Status(#[from] tonic::Status),
    #[error("it says what makes no sense: {0}")]
    Nonsense(#[from] spur_proto::BadMessage),
    #[error("it closed the stream")]
    Closed,
    #[error("the agent stops")]
    Stopping,
}

/// Keeps the link up until the agent stops taking inputs.
pub async fn keep(controller: PathBuf, inputs: mpsc::Sender<Input>) {
    let mut pause = PAUSE_MIN;
    let mut quiet = false;
    loop {
        let mut up = false;
        let ended = once(&controller, &inputs, &mut up).await;
        if inputs.send(Input::LinkDown).await.is_err() || matches!(ended, Ended::Stopping) {
            return;
        }
        if up || !quiet {
            tracing::warn!(controller = %controller.display(), why = %ended, "no link to the controller; trying again");
        }
        quiet = !up;
        pause = if up {
            PAUSE_MIN
        } else {
            (pause * 2).min(PAUSE_MAX)
        };
        tokio::time::sleep(jittered(pause)).await;
    }
}

/// Spreads the attempts of many agents over half to all of the pause.
fn jittered(pause: Duration) -> Duration {
    let noise = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.subsec_nanos());
    pause / 2 + pause.mul_f64(f64::from(noise % 1000) / 2000.0)
}

/// One link, from dialling to its end.
async fn once(controller: &PathBuf, inputs: &mpsc::Sender<Input>, up: &mut bool) -> Ended {
    match talk(controller, inputs, up).await {
        Ok(()) => Ended::Closed,
        Err(ended) => ended,
    }
}

async fn talk(
    controller: &PathBuf,
    inputs: &mpsc::Sender<Input>,
    up: &mut bool,
) -> Result<(), Ended> {
    let stream = UnixStream::connect(controller)
        .await
        .map_err(Ended::Connect)?;
    let channel = channel_over(stream).await?;
    let mut client = LinkClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let (out, rest) = mpsc::channel::<FromAgent>(OUT_MAX);
    // The agent says Hello into the queue before the controller is asked to listen.
    inputs
        .send(Input::LinkUp(out))
        .await
        .map_err(|_| Ended::Stopping)?;
    let outgoing = ReceiverStream::new(rest).map(|message| wire::AgentMessage::from(&message));
    let mut incoming = client.connect(outgoing).await?.into_inner();
    while let Some(message) = incoming.message().await? {
        *up = true;
        let order = ToAgent::try_from(message)?;
        inputs
            .send(Input::Order(Box::new(order)))
            .await
            .map_err(|_| Ended::Stopping)?;
    }
    Ok(())
}

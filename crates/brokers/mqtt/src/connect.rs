//! Dialling: TCP, TLS, CONNECT, CONNACK.

use std::{io, time::Duration};

use bytes::BytesMut;
use mqtt5_protocol::packet::{connect::ConnectPacket, publish::PublishPacket};
use mqtt5_protocol::{ConnectOptions, Properties};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
};
use tokio_rustls::TlsConnector;

use crate::{
    config::Target,
    outcome::Trouble,
    packet::{self, FromServer, Reason},
    session::{Reader, Session, Terms, Writer},
};

/// How long the server waits for a sign of life before it drops us.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Largest packet a server takes that names no limit.
const PACKET_BYTES_MAX: usize = packet::BODY_BYTES_MAX + 5;

/// How we introduce ourselves.
#[derive(Clone, Debug)]
pub(crate) struct Introduction {
    pub(crate) client_id: String,
    /// Whether to go on with what the server has kept for this client.
    pub(crate) is_clean_start: bool,
    /// How long it shall be kept when we are gone.
    pub(crate) kept_seconds: u32,
    /// How many messages may be on their way to us.
    pub(crate) receive_max: u16,
    /// Largest packet we take.
    pub(crate) packet_bytes_max: u32,
}

impl Introduction {
    /// Of a client that publishes only, and wants nothing but short answers.
    pub(crate) fn of_publisher(client_id: String) -> Self {
        Self {
            client_id,
            is_clean_start: true,
            kept_seconds: 0,
            receive_max: 1,
            packet_bytes_max: 256 * 1024,
        }
    }
}

/// A new session. Has no deadline of its own; dropping it leaves nothing behind.
pub(crate) async fn dial(
    target: &Target,
    introduction: &Introduction,
    incoming: mpsc::Sender<PublishPacket>,
) -> Result<Session, Trouble> {
    let (mut reader, mut writer) = open(target).await.map_err(|error| Trouble::from_io(&error))?;
    let mut buffer = BytesMut::new();
    packet::encode(&connect_packet(target, introduction), &mut buffer)
        .map_err(|error| Trouble::Malformed(error.to_string()))?;
    let sent = async {
        writer.write_all(&buffer).await?;
        writer.flush().await
    };
    sent.await.map_err(|error| Trouble::from_io(&error))?;
    buffer.clear();
    let (reason, properties) = connack(&mut reader, &mut buffer, introduction).await?;
    if reason.code != 0 {
        return Err(Trouble::Refused(reason));
    }
    let terms = terms(introduction, &properties)?;
    Ok(Session::start(terms, (reader, writer), buffer, incoming))
}

async fn open(target: &Target) -> io::Result<(Reader, Writer)> {
    let stream = TcpStream::connect((target.host.as_str(), target.port)).await?;
    stream.set_nodelay(true)?;
    let Some(tls) = &target.tls else {
        let (reader, writer) = stream.into_split();
        return Ok((Box::new(reader), Box::new(writer)));
    };
    let connector = TlsConnector::from(tls.client.clone());
    let stream = connector.connect(tls.name.clone(), stream).await?;
    let (reader, writer) = tokio::io::split(stream);
    Ok((Box::new(reader), Box::new(writer)))
}

fn connect_packet(target: &Target, introduction: &Introduction) -> ConnectPacket {
    let mut options = ConnectOptions::new(&introduction.client_id);
    options.keep_alive = KEEP_ALIVE;
    options.clean_start = introduction.is_clean_start;
    options.username = target.user.clone();
    options.password = target.password.clone();
    options.properties.session_expiry_interval = Some(introduction.kept_seconds);
    options.properties.receive_maximum = Some(introduction.receive_max);
    options.properties.maximum_packet_size = Some(introduction.packet_bytes_max);
    ConnectPacket::new(options)
}

async fn connack(
    reader: &mut Reader,
    buffer: &mut BytesMut,
    introduction: &Introduction,
) -> Result<(Reason, Properties), Trouble> {
    loop {
        match packet::take(buffer, bytes(introduction.packet_bytes_max)) {
            Ok(Some(FromServer::Connack { reason, properties })) => {
                return Ok((reason, properties));
            }
            Ok(Some(_)) => return Err(Trouble::Malformed("no CONNACK".to_owned())),
            Err(what) => return Err(Trouble::Malformed(what)),
            Ok(None) => {}
        }
        match reader.read_buf(buffer).await {
            Ok(0) => {
                let detail = "the server closed the connection before it answered";
                return Err(Trouble::Connection(detail.to_owned()));
            }
            Ok(_) => {}
            Err(error) => return Err(Trouble::from_io(&error)),
        }
    }
}

/// What is left out has the meaning that the standard gives it.
fn terms(introduction: &Introduction, properties: &Properties) -> Result<Terms, Trouble> {
    if properties.get_maximum_qos() == Some(0) {
        return Err(Trouble::QosZeroOnly);
    }
    let keep_alive = properties
        .get_server_keep_alive()
        .map_or(KEEP_ALIVE, |seconds| Duration::from_secs(seconds.into()));
    Ok(Terms {
        receive_max: properties.get_receive_maximum().unwrap_or(u16::MAX).max(1),
        packet_bytes_max: properties.get_maximum_packet_size().map_or(PACKET_BYTES_MAX, bytes),
        our_packet_bytes_max: bytes(introduction.packet_bytes_max),
        keep_alive,
    })
}

fn bytes(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

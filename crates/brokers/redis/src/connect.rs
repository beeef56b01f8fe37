//! A connection to the server: TCP, TLS, login, and whether it can be used at all.

use std::{
    io,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, RedisConnectionInfo, RedisError, Value,
    aio::MultiplexedConnection, cmd,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::{AbortHandle, JoinHandle},
};
use tokio_rustls::TlsConnector;

use crate::{config::Target, outcome::Fault};

/// How much is collected before it is written to the socket.
const WRITE_BYTES: usize = 64 * 1024;

/// A connection that has logged in. Requests of several callers follow each other on it. Dropped, it
/// is closed.
pub(crate) struct Session {
    connection: MultiplexedConnection,
    driver: AbortHandle,
    /// Taken by whoever closes first.
    task: Mutex<Option<JoinHandle<()>>>,
    is_retired: AtomicBool,
}

impl Session {
    /// Connects and logs in. Has no deadline of its own.
    pub(crate) async fn dial(target: &Target) -> Result<Self, Fault> {
        let stream = TcpStream::connect((target.host.as_str(), target.port))
            .await
            .map_err(|error| Fault::Dial(error.into()))?;
        // Closing throws away what has not been sent, so that nothing lands after it was given up.
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_zero_linger())
            .map_err(|error| Fault::Dial(error.into()))?;
        let session = match &target.tls {
            None => Self::start(stream).await?,
            Some(tls) => {
                let connector = TlsConnector::from(tls.client.clone());
                let stream = connector.connect(tls.name.clone(), stream).await;
                Self::start(stream.map_err(Fault::Tls)?).await?
            }
        };
        session.log_in(target).await?;
        Ok(session)
    }

    async fn start<S>(stream: S) -> Result<Self, Fault>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // Deadlines are the caller's; the login is ours, because it sees every answer.
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None)
            .set_write_backpressure_boundary(WRITE_BYTES);
        let login = RedisConnectionInfo::default().set_skip_set_lib_name();
        let (connection, driver) = MultiplexedConnection::new_with_config(&login, stream, config)
            .await
            .map_err(Fault::Dial)?;
        let task = tokio::spawn(driver);
        let driver = task.abort_handle();
        let is_retired = AtomicBool::new(false);
        Ok(Self { connection, driver, task: Mutex::new(Some(task)), is_retired })
    }

    /// Logs in, and makes sure that transactions are allowed: a refused `MULTI` would leave what
    /// follows it on its own.
    async fn log_in(&self, target: &Target) -> Result<(), Fault> {
        let mut hello = Vec::new();
        if let Some(password) = &target.password {
            hello.push(cmd("AUTH").arg(&target.user).arg(password).take());
        }
        if target.database != 0 {
            hello.push(cmd("SELECT").arg(target.database).take());
        }
        hello.extend([cmd("MULTI"), cmd("EXEC")]);
        // One by one: a server that is about to close the connection says why in its first answer.
        for command in &hello {
            self.ask(command).await.map_err(|fault| match fault {
                Fault::Lost(error) => Fault::Dial(error),
                other => other,
            })?;
        }
        Ok(())
    }

    /// Sends all of it at once; one answer for each command, errors of the server among them.
    pub(crate) async fn pipeline(&self, pipeline: &Pipeline) -> Result<Vec<Value>, RedisError> {
        let count = pipeline.len();
        let answers = self.connection.clone().send_packed_commands(pipeline, 0, count).await?;
        if answers.len() == count {
            return Ok(answers);
        }
        Err((ErrorKind::UnexpectedReturnType, "not one answer for each command").into())
    }

    /// Asks one thing.
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, Fault> {
        match self.connection.clone().send_packed_command(command).await {
            Ok(Value::ServerError(error)) => Err(Fault::Refused(error)),
            Ok(value) => Ok(value),
            Err(error) => Err(Fault::Lost(error)),
        }
    }

    /// Gives the connection a name that others see in `CLIENT LIST`.
    pub(crate) async fn set_name(&self, name: &str) -> Result<(), Fault> {
        self.ask(cmd("CLIENT").arg("SETNAME").arg(name)).await.map(|_| ())
    }

    /// Whether the other side, or we, have closed it.
    pub(crate) fn is_closed(&self) -> bool {
        self.driver.is_finished()
    }

    /// Lets it end with the requests that are under way: new ones should go elsewhere.
    pub(crate) fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
    }

    /// Whether it is not for new requests.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_retired.load(Ordering::Relaxed) || self.is_closed()
    }

    /// Closes it now, whoever else uses it: their requests end without an answer. The socket is
    /// gone when this returns.
    pub(crate) async fn close(&self) {
        self.driver.abort();
        let task = self.task.lock().map(|mut task| task.take()).unwrap_or_default();
        if let Some(task) = task {
            // Ends with "cancelled", as told.
            let _ = task.await;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// An answer that makes no sense.
pub(crate) fn nonsense(what: &'static str) -> Fault {
    Fault::Lost(io::Error::new(io::ErrorKind::InvalidData, what).into())
}

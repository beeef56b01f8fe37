//! The `transactions` program. Everything is in the library.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    services_web::main("transactions", transactions::start).await
}

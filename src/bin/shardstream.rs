//! The command line; everything is in `shardstream::cli`.

fn main() -> std::process::ExitCode {
    shardstream::cli::main()
}

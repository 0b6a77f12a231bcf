//! The servers: a real nginx, and a small one that lets clients wait.

use std::env;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub const NGINX_HOSTS: u32 = 200;
/// The first of nginx's addresses; a host each.
pub const NGINX_FIRST: Ipv4Addr = Ipv4Addr::new(127, 77, 0, 1);
/// The hosts of the small server: those of 20 ms, and one of a second.
pub const ORIGIN_HOSTS: u32 = 65;
pub const ORIGIN_FIRST: Ipv4Addr = Ipv4Addr::new(127, 78, 0, 1);

/// A directory that is removed in the end.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new() -> io::Result<Self> {
        let path = env::temp_dir().join(format!("fetchpool-peers-{}", process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A port that is free on all of a row of addresses, as far as its first tells.
fn free_port(first: Ipv4Addr) -> io::Result<u16> {
    Ok(TcpListener::bind((first, 0))?.local_addr()?.port())
}

fn on_core(core: Option<usize>, program: &str) -> Command {
    let Some(core) = core else {
        return Command::new(program);
    };
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string(), program]);
    command
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!("{command:?}: {told}")))
}

/// A root, and a certificate of all of nginx's hosts below it.
fn make_certificates(directory: &Path) -> io::Result<()> {
    let openssl = || {
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-nodes", "-days", "30", "-newkey", "ec"]);
        command.args(["-pkeyopt", "ec_paramgen_curve:P-256"]);
        command.current_dir(directory);
        command
    };
    let mut root = openssl();
    root.args(["-subj", "/CN=fetchpool-peers root"]);
    root.args(["-keyout", "ca.key", "-out", "ca.pem"]);
    run(&mut root)?;
    let mut host = openssl();
    host.args(["-subj", "/CN=fetchpool-peers"]);
    host.args(["-CA", "ca.pem", "-CAkey", "ca.key"]);
    host.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    let names: Vec<_> = addresses().map(|address| format!("IP:{address}")).collect();
    host.args(["-addext", &format!("subjectAltName={}", names.join(","))]);
    host.args(["-keyout", "host.key", "-out", "host.pem"]);
    run(&mut host)
}

pub struct Nginx {
    child: Child,
    pub port: u16,
    pub tls_port: u16,
    pub ca: PathBuf,
}

impl Nginx {
    /// Starts it, with files of 1 KiB and of these many bytes.
    pub fn start(directory: &Path, files: &[u64], core: Option<usize>) -> io::Result<Self> {
        let www = directory.join("www");
        fs::create_dir(&www)?;
        fs::write(www.join("1k"), [b'x'; 1024])?;
        for &bytes in files {
            // Sparse: no disk has to keep up.
            File::create(www.join(bytes.to_string()))?.set_len(bytes)?;
        }
        make_certificates(directory)?;
        let (port, tls_port) = (free_port(NGINX_FIRST)?, free_port(NGINX_FIRST)?);
        let conf = directory.join("nginx.conf");
        fs::write(&conf, configuration(directory, port, tls_port))?;
        let mut command = on_core(core, "nginx");
        let child = command
            .arg("-p")
            .arg(directory)
            .arg("-c")
            .arg(&conf)
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| io::Error::other(format!("nginx is needed: {error}")))?;
        let nginx = Self {
            child,
            port,
            tls_port,
            ca: directory.join("ca.pem"),
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect((NGINX_FIRST, tls_port)).is_err() {
            if Instant::now() > deadline {
                return Err(io::Error::other("nginx does not listen"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its worker goes with it, as it would not with a kill.
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

/// Those at which nginx listens.
fn addresses() -> impl Iterator<Item = Ipv4Addr> {
    (0..NGINX_HOSTS).map(|host| Ipv4Addr::from(u32::from(NGINX_FIRST) + host))
}

fn configuration(directory: &Path, port: u16, tls_port: u16) -> String {
    let directory = directory.display();
    let hosts = addresses().map(|address| {
        format!(
            "    listen {address}:{port} backlog=1024;\n    listen {address}:{tls_port} ssl backlog=1024;\n"
        )
    });
    let listen: String = hosts.collect();
    // The temporary paths are for those who are not root.
    format!(
        "daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log stderr error;
worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  sendfile on;
  tcp_nopush on;
  tcp_nodelay on;
  keepalive_requests 1000000000;
  keepalive_timeout 75s;
  open_file_cache max=16 inactive=1h;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  server {{
{listen}    ssl_certificate {directory}/host.pem;
    ssl_certificate_key {directory}/host.key;
    ssl_protocols TLSv1.2 TLSv1.3;
    root {directory}/www;
  }}
}}
"
    )
}

pub struct Origin {
    child: Child,
    pub port: u16,
}

impl Origin {
    pub fn start(core: Option<usize>) -> io::Result<Self> {
        let exe = env::current_exe()?.display().to_string();
        let mut child = on_core(core, &exe)
            .arg("origin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line)?;
        let port = line.trim().parse().map_err(io::Error::other)?;
        Ok(Self { child, port })
    }

    pub fn slow_host(&self) -> SocketAddrV4 {
        let last = u32::from(ORIGIN_FIRST) + ORIGIN_HOSTS - 1;
        SocketAddrV4::new(Ipv4Addr::from(last), self.port)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The small server: `/wait/20` is answered after 20 ms. Ends with its standard input.
pub fn origin() -> io::Result<()> {
    let port = free_port(ORIGIN_FIRST)?;
    for host in 0..ORIGIN_HOSTS {
        let listener = TcpListener::bind((Ipv4Addr::from(u32::from(ORIGIN_FIRST) + host), port))?;
        spawn(move || {
            for stream in listener.incoming().flatten() {
                // Its client sees the connection cut where it fails.
                let _ = spawn(move || {
                    let _ = serve(stream);
                });
            }
        })?;
    }
    println!("{port}");
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn spawn(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().stack_size(64 * 1024);
    thread.spawn(run).map(drop)
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut response = b"HTTP/1.1 200 OK\r\ncontent-length: 1024\r\n\r\n".to_vec();
    response.extend([b'x'; 1024]);
    let (mut buffer, mut filled) = ([0; 4096], 0);
    loop {
        let read = stream.read(&mut buffer[filled..])?;
        if read == 0 {
            return Ok(());
        }
        filled += read;
        if !buffer[..filled].ends_with(b"\r\n\r\n") {
            continue;
        }
        let head = String::from_utf8_lossy(&buffer[..filled]);
        let wait = head.strip_prefix("GET /wait/");
        let wait = wait.and_then(|rest| rest.split(['?', ' ']).next()?.parse().ok());
        thread::sleep(Duration::from_millis(wait.unwrap_or(0)));
        stream.write_all(&response)?;
        filled = 0;
    }
}

//! A gateway behind a proxy with TLS, as the command line meets it: trusted, not trusted, for another name.

use std::{path::Path, process::Command, sync::Arc};

use gantry_testkit::{Database, skip};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

use super::{Ran, Shell};
use crate::support::gateway;

fn openssl(dir: &Path, line: &str) {
    let output = Command::new("openssl").args(line.split(' ')).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// An authority (`ca.pem`) and a certificate of it for 127.0.0.1.
pub(crate) fn certificates(dir: &Path) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(dir, &format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=authority"));
    let name = "-subj /CN=gateway -addext subjectAltName=IP:127.0.0.1";
    openssl(dir, &format!("req {key} -keyout key.pem -out request.pem {name}"));
    let signed = "-CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -copy_extensions copy -out cert.pem";
    openssl(dir, &format!("x509 -req -in request.pem {signed}"));
}

/// Takes the TLS away and hands everything on to `to`; gives its port.
#[expect(clippy::disallowed_methods, reason = "tests have no supervisor")]
pub(crate) async fn proxy(dir: &Path, to: String) -> u16 {
    let certs = CertificateDer::pem_file_iter(dir.join("cert.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(dir.join("key.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certs, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, to) = (acceptor.clone(), to.clone());
            tokio::spawn(async move {
                // A client that does not trust the certificate closes the connection here.
                let Ok(mut inside) = acceptor.accept(stream).await else { return };
                let mut outside = TcpStream::connect(to).await.unwrap();
                let _ = copy_bidirectional(&mut inside, &mut outside).await;
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_checked_and_what_is_wrong_with_it_is_said() {
    if Command::new("openssl").arg("version").output().is_err() {
        skip("cli: TLS", "there is no `openssl`");
        return;
    }
    let gateway = gateway(Database::Sqlite).await;
    let mut shell = Shell::at(&gateway.url);
    let dir = shell.home.path().to_owned();
    certificates(&dir);
    let port = proxy(&dir, gateway.url.replace("http://", "")).await;
    shell.url = format!("https://127.0.0.1:{port}");
    let authority = dir.join("ca.pem");

    let login = |trusted: bool| {
        let mut command = shell.command(&["login", "owner"]);
        command.env("GANTRY_PASSWORD", "owner-password");
        if trusted {
            command.env("SSL_CERT_FILE", &authority);
        }
        Ran::of(command.output().unwrap())
    };
    let refused = login(false).ends(3);
    assert!(refused.err.contains("SSL_CERT_FILE"), "{}", refused.err);
    assert!(!refused.err.contains("owner-password"), "{}", refused.err);
    assert!(login(true).ends(0).out.contains(&shell.url));

    let trusting =
        |args: &[&str]| Ran::of(shell.command(args).env("SSL_CERT_FILE", &authority).output().unwrap());
    let orgs = trusting(&["orgs", "list", "--json"]).ends(0).json();
    assert_eq!(orgs[0]["name"], "Default", "{orgs}");
    // The session was kept, and is not given away to who can't prove its name.
    let refused = shell.run(&["orgs", "list", "--json"]).ends(3);
    assert_eq!(refused.error()["exit_code"], 3, "{}", refused.err);
    let named = format!("https://localhost:{port}");
    let other = trusting(&["orgs", "list", "--url", &named]).ends(3);
    assert!(other.err.contains("another name"), "{}", other.err);
    // Plain HTTP where TLS is spoken, and the other way round.
    let plain = trusting(&["orgs", "list", "--url", &gateway.url.replace("http:", "https:")]).ends(3);
    assert!(plain.err.contains("speaks no TLS"), "{}", plain.err);
    trusting(&["orgs", "list", "--url", &shell.url.replace("https:", "http:")]).ends(3);
    let report = trusting(&["doctor", "--json", "--data-dir", gateway.data_dir().to_str().unwrap()]).json();
    let found = report["checks"].as_array().unwrap().iter().find(|it| it["name"] == "gateway").unwrap();
    assert_eq!(found["status"], "ok", "{found}");
}

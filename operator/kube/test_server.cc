#include "operator/kube/test_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/str_cat.h"

namespace kube {
namespace {

template <typename Writer>
std::string ToPem(Writer writer) {
  BIO* bio = BIO_new(BIO_s_mem());
  writer(bio);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string out(data, static_cast<size_t>(size));
  BIO_free(bio);
  return out;
}

struct Made {
  X509* certificate;
  EVP_PKEY* key;
  TestCertificate Pem() const {
    return {ToPem([&](BIO* bio) { PEM_write_bio_X509(bio, certificate); }), ToPem([&](BIO* bio) {
              PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
            })};
  }
};

void Extend(X509* certificate, int nid, const char* value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// `issuer` nullptr: signs itself and is an authority.
Made Make(const char* name, const char* alt_names, const Made* issuer) {
  Made made{X509_new(), EVP_EC_gen("P-256")};
  X509* certificate = made.certificate;
  static long serial = 1;
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 86400);
  X509_set_pubkey(certificate, made.key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  X509_set_issuer_name(certificate,
                       X509_get_subject_name(issuer ? issuer->certificate : certificate));
  Extend(certificate, NID_basic_constraints, issuer ? "CA:FALSE" : "critical,CA:TRUE");
  if (alt_names != nullptr) Extend(certificate, NID_subject_alt_name, alt_names);
  X509_sign(certificate, issuer ? issuer->key : made.key, EVP_sha256());
  return made;
}

class SocketConnection : public ServerConnection {
 public:
  SocketConnection(int fd, SSL* ssl) : fd_(fd), ssl_(ssl) {}
  ~SocketConnection() override { SSL_free(ssl_); }

  bool Write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const int n = ssl_ != nullptr
                        ? SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()))
                        : static_cast<int>(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  void Close(bool orderly) override {
    if (orderly && ssl_ != nullptr) SSL_shutdown(ssl_);
    shutdown(fd_, SHUT_RDWR);
    closed_ = true;
  }
  bool WaitForClose(absl::Duration timeout) override {
    pollfd poll_fd{fd_, POLLIN | POLLRDHUP, 0};
    if (poll(&poll_fd, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) <= 0) return false;
    char byte;
    return Read(&byte, 1) <= 0;
  }
  int Read(char* data, int size) {
    return ssl_ != nullptr ? SSL_read(ssl_, data, size)
                           : static_cast<int>(recv(fd_, data, static_cast<size_t>(size), 0));
  }
  bool closed() const { return closed_; }
  SSL* ssl() const { return ssl_; }

 private:
  const int fd_;
  SSL* const ssl_;
  bool closed_ = false;
};

// Reads the next request; false at the end of the connection.
bool ReadRequest(SocketConnection& connection, std::string& buffer, ServerRequest& request) {
  const auto more = [&] {
    char piece[4096];
    const int n = connection.Read(piece, sizeof(piece));
    if (n > 0) buffer.append(piece, static_cast<size_t>(n));
    return n > 0;
  };
  size_t end = 0;
  while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
    if (!more()) return false;
  }
  const std::string head = buffer.substr(0, end + 2);
  buffer.erase(0, end + 4);
  const size_t first = head.find(' ');
  const size_t second = head.find(' ', first + 1);
  request.method = head.substr(0, first);
  request.path = head.substr(first + 1, second - first - 1);
  for (size_t at = head.find("\r\n") + 2; at < head.size();) {
    const size_t line_end = head.find("\r\n", at);
    const size_t colon = head.find(':', at);
    request.headers[absl::AsciiStrToLower(head.substr(at, colon - at))] =
        std::string(absl::StripAsciiWhitespace(head.substr(colon + 1, line_end - colon - 1)));
    at = line_end + 2;
  }
  size_t length = 0;
  if (!absl::SimpleAtoi(request.headers["content-length"], &length)) length = 0;
  while (buffer.size() < length) {
    if (!more()) return false;
  }
  request.body = buffer.substr(0, length);
  buffer.erase(0, length);
  return true;
}

std::string PeerName(SSL* ssl) {
  X509* certificate = SSL_get1_peer_certificate(ssl);
  if (certificate == nullptr) return "";
  char name[256] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof(name));
  X509_free(certificate);
  return name;
}

X509* ReadCertificate(const std::string& pem) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  return certificate;
}

SSL_CTX* MakeContext(bool require_client_certificate) {
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  X509* certificate = ReadCertificate(Pki().server.certificate_pem);
  SSL_CTX_use_certificate(context, certificate);
  X509_free(certificate);
  const std::string& key_pem = Pki().server.key_pem;
  BIO* bio = BIO_new_mem_buf(key_pem.data(), static_cast<int>(key_pem.size()));
  EVP_PKEY* key = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  SSL_CTX_use_PrivateKey(context, key);
  EVP_PKEY_free(key);
  if (require_client_certificate) {
    X509* ca = ReadCertificate(Pki().ca_pem);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), ca);
    X509_free(ca);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  return context;
}

}  // namespace

const TestPki& Pki() {
  static const TestPki pki = [] {
    const Made ca = Make("test authority", nullptr, nullptr);
    const Made server = Make("server", "DNS:localhost,DNS:api.example,IP:127.0.0.1", &ca);
    const Made client = Make("tester", nullptr, &ca);
    const Made other = Make("another authority", nullptr, nullptr);
    TestPki made{ca.Pem().certificate_pem, server.Pem(), client.Pem(), other.Pem().certificate_pem};
    for (const Made& pair : {ca, server, client, other}) {
      X509_free(pair.certificate);
      EVP_PKEY_free(pair.key);
    }
    return made;
  }();
  return pki;
}

void ServerConnection::Answer(int code, std::string_view body, std::string_view more_headers) {
  Write(base::StrCat("HTTP/1.1 ", code, " Whatever\r\nContent-Type: application/json\r\n",
                     more_headers, "Content-Length: ", body.size(), "\r\n\r\n", body));
}
void ServerConnection::StartChunks() {
  Write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
}
bool ServerConnection::Chunk(std::string_view data) {
  return Write(base::StrCat(absl::Hex(data.size()), "\r\n", data, "\r\n"));
}
bool ServerConnection::EndChunks() { return Write("0\r\n\r\n"); }

TestServer::TestServer(Options options, Handler handler)
    : options_(options), handler_(std::move(handler)) {
  signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
  if (options_.tls) {
    context_ = std::shared_ptr<void>(MakeContext(options_.require_client_certificate),
                                     [](void* c) { SSL_CTX_free(static_cast<SSL_CTX*>(c)); });
  }
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  if (bind(listener_, generic, size) != 0 || listen(listener_, 64) != 0) std::abort();
  getsockname(listener_, generic, &size);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::jthread([this] { Accept(); });
}

TestServer::~TestServer() {
  stopping_ = true;
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  std::vector<std::jthread> threads;
  {
    absl::MutexLock lock(&mutex_);
    for (const int fd : open_) shutdown(fd, SHUT_RDWR);
    threads.swap(threads_);
  }
  threads.clear();  // joins
  close(listener_);
}

std::string TestServer::url(const std::string& host) const {
  return absl::StrCat(options_.tls ? "https://" : "http://", host, ":", port_);
}

void TestServer::Accept() {
  while (!stopping_) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const int number = ++connections_;
    absl::MutexLock lock(&mutex_);
    open_.push_back(fd);
    if (stopping_) shutdown(fd, SHUT_RDWR);
    threads_.emplace_back([this, fd, number] { Serve(fd, number); });
  }
}

void TestServer::Serve(int fd, int connection_number) {
  SSL* ssl = nullptr;
  if (context_ != nullptr) {
    ssl = SSL_new(static_cast<SSL_CTX*>(context_.get()));
    SSL_set_fd(ssl, fd);
  }
  {
    SocketConnection connection(fd, ssl);
    if (ssl == nullptr || SSL_accept(ssl) == 1) {
      std::string buffer;
      ServerRequest request;
      while (!connection.closed() && ReadRequest(connection, buffer, request)) {
        request.connection = connection_number;
        if (ssl != nullptr) {
          request.client_name = PeerName(ssl);
          const char* name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
          request.server_name = name != nullptr ? name : "";
        }
        handler_(request, connection);
        request = {};
      }
    }
  }
  absl::MutexLock lock(&mutex_);
  std::erase(open_, fd);
  close(fd);
}

}  // namespace kube

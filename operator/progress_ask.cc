#include "operator/progress_ask.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tfjob {
namespace {

constexpr size_t kMaxHead = 8 << 10;
constexpr size_t kMaxBody = 64 << 10;
constexpr char kEndOfHead[] = "\r\n\r\n";

absl::Status NotProgress(const std::string& why) { return absl::InvalidArgumentError(why); }

// The value of a header; "" if it is not there.
std::string Header(std::string_view head, std::string_view name) {
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(head.data(), head.size()), "\r\n")) {
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos) continue;
    if (absl::AsciiStrToLower(line.substr(0, colon)) != absl::string_view(name.data(), name.size()))
      continue;
    return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return "";
}

// What the bytes that have come mean; nullopt if more must come. RFC 9112.
std::optional<absl::StatusOr<Progress>> Read(std::string_view bytes, bool is_end) {
  const size_t head_size = bytes.find(kEndOfHead);
  if (head_size == std::string_view::npos || head_size > kMaxHead) {
    if (bytes.size() > kMaxHead) return NotProgress("its answer has too long a head");
    if (is_end) return NotProgress("what it answers is no HTTP");
    return std::nullopt;
  }
  const std::string_view head = bytes.substr(0, head_size);
  int code = 0;
  if (head.size() < 12 || head.substr(0, 7) != "HTTP/1." ||
      !absl::SimpleAtoi(std::string(head.substr(9, 3)), &code)) {
    return NotProgress("what it answers is no HTTP");
  }
  if (code != 200) return NotProgress(absl::StrCat("it answers HTTP ", code));
  if (!Header(head, "transfer-encoding").empty()) {
    return NotProgress("its answer is chunked, which HTTP/1.0 does not know");
  }
  const std::string_view body = bytes.substr(head_size + std::strlen(kEndOfHead));
  const std::string length_text = Header(head, "content-length");
  uint64_t length = body.size();
  if (!length_text.empty() && !absl::SimpleAtoi(length_text, &length)) {
    return NotProgress("its answer has a wrong Content-Length");
  }
  if (length > kMaxBody || body.size() > kMaxBody) return NotProgress("it answers over 64 KiB");
  if (length_text.empty() ? !is_end : body.size() < length) {
    if (is_end) return absl::UnavailableError("its answer was cut");
    return std::nullopt;
  }
  const std::optional<Progress> progress = ParseProgress(body.substr(0, length));
  if (!progress) return NotProgress("what it answers is no JSON object with global_step");
  return *progress;
}

}  // namespace

ProgressAsk::ProgressAsk(const std::string& ip, int port)
    : request_(absl::StrCat("GET /progress HTTP/1.0\r\nHost: ",
                            ip.find(':') == std::string::npos ? ip : absl::StrCat("[", ip, "]"),
                            ":", port,
                            "\r\nAccept: application/json\r\nUser-Agent: trainyard-operator\r\n"
                            "Connection: close\r\n\r\n")) {
  Connect(ip, port);
}

ProgressAsk::~ProgressAsk() {
  if (fd_ >= 0) (void)::close(fd_);
}

void ProgressAsk::Fail(const char* what, int error) {
  result_ = absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error)));
}

void ProgressAsk::Connect(const std::string& ip, int port) {
  sockaddr_storage address{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(address);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  socklen_t size = sizeof v4;
  if (::inet_pton(AF_INET, ip.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(static_cast<uint16_t>(port));
  } else if (::inet_pton(AF_INET6, ip.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(static_cast<uint16_t>(port));
    size = sizeof v6;
  } else {
    result_ = NotProgress("its pod's IP is none");
    return;
  }
  fd_ = ::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return Fail("no socket", errno);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), size) != 0 &&
      errno != EINPROGRESS) {
    Fail("cannot be reached", errno);
  }
}

short ProgressAsk::events() const { return request_.empty() ? POLLIN : POLLOUT; }

void ProgressAsk::Advance() {
  if (connecting_) {
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) return Fail("cannot be reached", error);
    connecting_ = false;
  }
  if (!request_.empty()) Send();
  if (!result_ && request_.empty()) Receive();
}

void ProgressAsk::Send() {
  const ssize_t sent = ::send(fd_, request_.data(), request_.size(), MSG_NOSIGNAL);
  if (sent >= 0) {
    request_.erase(0, static_cast<size_t>(sent));
  } else if (errno != EAGAIN && errno != EINTR) {
    Fail("cut the connection", errno);
  }
}

void ProgressAsk::Receive() {
  char buffer[4096];
  while (!result_) {
    const ssize_t size = ::recv(fd_, buffer, sizeof buffer, 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    if (size < 0) return Fail("cut the connection", errno);
    answer_.append(buffer, static_cast<size_t>(size));
    result_ = Read(answer_, /*is_end=*/size == 0);
  }
}

}  // namespace tfjob

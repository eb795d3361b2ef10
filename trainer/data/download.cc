#include "trainer/data/download.h"

#include <httplib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/data/atomic_file.h"
#include "trainer/data/part_file.h"
#include "trainer/data/sha256.h"

namespace trainer {
namespace {

constexpr std::string_view kFileScheme = "file://";
constexpr int kOk = 200;
constexpr int kPartialContent = 206;
constexpr int kRangeNotSatisfiable = 416;

// A mirror's address: http[s]://host[:port] and the folder's path; no origin for file://.
struct Mirror {
  std::string origin;
  std::string path;
};

absl::StatusOr<Mirror> ParseMirror(std::string url) {
  while (url.ends_with('/') && !url.ends_with("://")) url.pop_back();
  if (url.starts_with(kFileScheme)) {
    const std::string path = url.substr(kFileScheme.size());
    if (path.starts_with('/')) return Mirror{"", path};
  }
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!url.starts_with(scheme)) continue;
    const size_t host = scheme.size();
    const size_t slash = std::min(url.find('/', host), url.size());
    if (slash > host) return Mirror{url.substr(0, slash), url.substr(slash)};
  }
  return base::UsageError(base::StrCat(
      "--mirror: '", url, "' is no http://, https:// or file:///ABSOLUTE/PATH address"));
}

// What a server answered, before any bytes are taken.
struct Answer {
  int status = 0;
  absl::Status error;  // of taking the bytes
};

// Prepares the part file for the body: to be gone on with (206), or from the beginning (200). A
// range that was not asked for (the part is longer than the file, say) means to begin again.
absl::Status Prepare(const httplib::Response& response, PartFile& part) {
  if (response.status == kOk) return part.Clear();
  const std::string range = response.get_header_value("Content-Range");
  const std::string wanted = base::StrCat("bytes ", part.size(), "-");
  uint64_t last = 0;
  if (range.starts_with(wanted) &&
      absl::SimpleAtoi(range.substr(wanted.size(), range.find('/') - wanted.size()), &last) &&
      last >= part.size()) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(part.Clear());
  return base::ClusterError(
      base::StrCat("asked for the range '", wanted, "', the server sends '", range, "'"));
}

absl::Status HttpError(const std::string& url, int status) {
  const std::string message = base::StrCat(url, ": the server answers HTTP ", status);
  if (status >= 500) return base::ClusterError(message);
  return base::DataError(base::StrCat(message, "; is this the folder that holds the files?"));
}

// One request for what `part` lacks.
absl::Status FetchHttp(const Mirror& mirror, const std::string& name, absl::Duration timeout,
                       PartFile& part) {
  const std::string path = mirror.path + "/" + name;
  const std::string url = mirror.origin + path;
  httplib::Client client(mirror.origin);
  client.set_follow_location(true);
  const auto microseconds = absl::ToChronoMicroseconds(timeout);
  client.set_connection_timeout(microseconds);
  client.set_read_timeout(microseconds);
  client.set_decompress(false);  // the sums are of the compressed files
  httplib::Headers headers = {{"Accept-Encoding", "identity"}};
  if (part.size() > 0) headers.emplace("Range", base::StrCat("bytes=", part.size(), "-"));
  Answer answer;
  const auto result = client.Get(
      path, headers,
      [&](const httplib::Response& response) {
        answer.status = response.status;
        if (response.status != kOk && response.status != kPartialContent) return false;
        answer.error = Prepare(response, part);
        return answer.error.ok();
      },
      [&](const char* bytes, size_t count) {
        answer.error = part.Append({reinterpret_cast<const uint8_t*>(bytes), count});
        return answer.error.ok();
      });
  RETURN_IF_ERROR(answer.error);
  if (answer.status == kRangeNotSatisfiable) return absl::OkStatus();  // all is there; or too much
  if (answer.status != 0 && answer.status != kOk && answer.status != kPartialContent) {
    return HttpError(url, answer.status);
  }
  if (result) return absl::OkStatus();
  return base::ClusterError(base::StrCat(url, ": ", httplib::to_string(result.error()), " after ",
                                         part.size(),
                                         " bytes; the same command goes on from there"));
}

absl::Status FetchFile(const Mirror& mirror, const std::string& name, PartFile& part) {
  const std::string path = mirror.path + "/" + name;
  std::ifstream file(path, std::ios::binary);
  if (!file) return base::DataError(base::StrCat(path, ": cannot open: ", std::strerror(errno)));
  RETURN_IF_ERROR(part.Clear());
  std::vector<char> buffer(size_t{1} << 20);
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    RETURN_IF_ERROR(part.Append(
        {reinterpret_cast<const uint8_t*>(buffer.data()), static_cast<size_t>(file.gcount())}));
  }
  if (file.bad()) return base::DataError(base::StrCat(path, ": cannot read it to its end"));
  return absl::OkStatus();
}

absl::Status FetchWithRetries(const Mirror& mirror, const std::string& name,
                              const DownloadOptions& options, PartFile& part) {
  if (mirror.origin.empty()) return FetchFile(mirror, name, part);
  absl::Status status;
  for (int attempt = 0; attempt < options.attempts; ++attempt) {
    status = FetchHttp(mirror, name, options.timeout, part);
    if (!absl::IsUnavailable(status)) return status;
  }
  return status;
}

bool IsInPlace(const std::string& path, const std::string& sha256) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  Sha256 sum;
  std::vector<char> buffer(size_t{1} << 20);
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    sum.Update(
        {reinterpret_cast<const uint8_t*>(buffer.data()), static_cast<size_t>(file.gcount())});
  }
  return sum.Finish() == sha256;
}

// Fetches until the sum is right; what an earlier run left may belong to another file, so a wrong
// sum after going on from it costs one fetch from the beginning.
absl::Status FetchChecked(const Mirror& mirror, const DownloadFile& file,
                          const DownloadOptions& options, PartFile& part) {
  for (;;) {
    const bool resumed = part.size() > 0;
    RETURN_IF_ERROR(FetchWithRetries(mirror, file.name, options, part));
    if (file.sha256.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::string found, part.Sha256Hex());
    if (found == file.sha256) return absl::OkStatus();
    const uint64_t size = part.size();
    RETURN_IF_ERROR(part.Clear());
    if (resumed) continue;
    return base::DataError(base::StrCat(mirror.origin, mirror.path, "/", file.name,
                                        ": expected SHA-256 ", file.sha256, ", found ", found, " (",
                                        size, " bytes): the mirror has another file"));
  }
}

}  // namespace

std::vector<DownloadFile> MnistFiles() {
  return {
      {"train-images-idx3-ubyte.gz",
       "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
      {"train-labels-idx1-ubyte.gz",
       "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
      {"t10k-images-idx3-ubyte.gz",
       "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
      {"t10k-labels-idx1-ubyte.gz",
       "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"},
  };
}

absl::Status Download(const DownloadOptions& options) {
  ASSIGN_OR_RETURN(const Mirror mirror, ParseMirror(options.mirror));
  RETURN_IF_ERROR(MakeFolders(Files::Real(), options.folder));
  for (const DownloadFile& file : options.files) {
    const std::string path = options.folder + "/" + file.name;
    const bool in_place = IsInPlace(path, file.sha256);
    if (!in_place) {
      ASSIGN_OR_RETURN(PartFile part, PartFile::Open(path));
      RETURN_IF_ERROR(FetchChecked(mirror, file, options, part));
      RETURN_IF_ERROR(part.Commit());
    }
    if (options.on_file) options.on_file(file.name, in_place ? "already there" : "fetched");
  }
  return absl::OkStatus();
}

}  // namespace trainer

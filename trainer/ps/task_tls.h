// Mutual TLS between the tasks of one job (see base/task_tls.h): each shows the job's certificate
// and talks only to those that show one of the same authority. Without it they talk in plain text.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace grpc {
class Channel;
class ChannelArguments;
class ServerCredentials;
}  // namespace grpc

namespace trainer {

// Immutable. A null pointer to one means plain text.
class TaskTls {
 public:
  // Reads ca.crt, tls.crt and tls.key; kInvalidArgument names what is missing or is no PEM.
  static absl::StatusOr<std::shared_ptr<const TaskTls>> Load(const std::string& dir);
  // All PEM.
  TaskTls(std::string authority, std::string certificate, std::string key)
      : authority_(std::move(authority)),
        certificate_(std::move(certificate)),
        key_(std::move(key)) {}

 private:
  friend std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                                    grpc::ChannelArguments arguments,
                                                    const TaskTls* tls);
  friend std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const TaskTls* tls);

  const std::string authority_, certificate_, key_;
};

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           grpc::ChannelArguments arguments, const TaskTls* tls);

// With `tls`, a connection without a certificate of the job is closed before its first call. Says
// so in the log, at most every few seconds; gRPC's own lines become debug lines.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const TaskTls* tls);

// What TLS has to do with a call that failed, in a few words for a person; "" if nothing. `tls`:
// the caller's own.
std::string TlsTrouble(const absl::Status& status, const TaskTls* tls);

}  // namespace trainer

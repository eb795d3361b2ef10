// TLS between the tasks of one job, as far as operator and trainer must agree on it: where a task
// finds its files, and the name that it asks of whoever it talks to.
#pragma once

namespace base {

// The folder of the three files; unset: tasks talk in plain text.
inline constexpr char kTaskTlsDirEnv[] = "TRAINYARD_TLS_DIR";

// PEM; also the keys of the job's Secret.
inline constexpr char kTaskTlsAuthority[] = "ca.crt";
inline constexpr char kTaskTlsCertificate[] = "tls.crt";
inline constexpr char kTaskTlsKey[] = "tls.key";

// The DNS name in the certificate. It is the same in every job: what tells jobs apart is their
// authority, which signs one certificate and no other.
inline constexpr char kTaskTlsName[] = "task.trainyard.invalid";

}  // namespace base

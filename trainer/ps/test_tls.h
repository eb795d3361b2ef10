// For tests: folders of credentials, each of a job of its own.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/random_id.h"
#include "base/task_certificates.h"
#include "base/task_tls.h"
#include "trainer/ps/task_tls.h"

namespace trainer {

// A job's folder of credentials; goes with the object.
class TlsFolder {
 public:
  TlsFolder() {
    const auto made = base::MakeTaskCertificates("uid", absl::Now());
    EXPECT_TRUE(made.ok());
    std::filesystem::create_directories(path_);
    for (const auto& [name, content] : made->Files()) Write(name, content);
  }
  ~TlsFolder() { std::filesystem::remove_all(path_); }

  void Write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name) << content;
  }
  void Remove(const char* name) const { std::filesystem::remove(path_ / name); }
  std::string Read(const char* name) const {
    std::ifstream file(path_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  absl::StatusOr<std::shared_ptr<const TaskTls>> Load() const {
    return TaskTls::Load(path_.string());
  }

 private:
  const std::filesystem::path path_ =
      std::filesystem::path(::testing::TempDir()) / absl::StrCat("tls-", base::RandomId());
};

inline std::shared_ptr<const TaskTls> MakeTls() { return *TlsFolder().Load(); }

}  // namespace trainer

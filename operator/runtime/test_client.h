// For tests: a kube::Client of which a test overrides what it needs; the rest fails.
#pragma once

#include <functional>
#include <string>

#include "operator/kube/client.h"

namespace runtime {

class TestClient : public kube::Client {
 public:
  using Json = kube::Json;
  using Resource = kube::Resource;
  absl::StatusOr<Json> Get(const Resource&, const std::string&, const std::string&,
                           std::stop_token) override {
    return NotFaked();
  }
  absl::StatusOr<Json> Create(const Resource&, const std::string&, const Json&,
                              std::stop_token) override {
    return NotFaked();
  }
  absl::StatusOr<Json> Replace(const Resource&, const std::string&, const Json&,
                               std::stop_token) override {
    return NotFaked();
  }
  absl::StatusOr<Json> ReplaceStatus(const Resource&, const std::string&, const Json&,
                                     std::stop_token) override {
    return NotFaked();
  }
  absl::StatusOr<Json> Patch(const Resource&, const std::string&, const std::string&,
                             kube::PatchType, const Json&, const std::string&,
                             std::stop_token) override {
    return NotFaked();
  }
  absl::Status Delete(const Resource&, const std::string&, const std::string&,
                      const kube::DeleteOptions&, std::stop_token) override {
    return NotFaked();
  }
  absl::Status DeleteCollection(const Resource&, const std::string&, const std::string&,
                                std::stop_token) override {
    return NotFaked();
  }
  absl::StatusOr<kube::ListPage> List(const Resource&, const std::string&, const kube::ListOptions&,
                                      std::stop_token) override {
    return NotFaked();
  }
  absl::Status Watch(const Resource&, const std::string&, const kube::WatchOptions&,
                     const std::function<bool(kube::WatchEvent&)>&, std::stop_token) override {
    return NotFaked();
  }
  absl::Status Logs(const std::string&, const std::string&, const kube::LogOptions&,
                    const std::function<bool(std::string_view)>&, std::stop_token) override {
    return NotFaked();
  }

 private:
  static absl::Status NotFaked() { return absl::UnimplementedError("not faked by this test"); }
};

}  // namespace runtime

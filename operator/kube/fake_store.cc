#include "operator/kube/fake_store.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace kube {
namespace {

constexpr char kForeground[] = "foregroundDeletion";

std::string KeyOf(const std::string& ns, const std::string& name) {
  return absl::StrCat(ns, "/", name);
}

std::string Quoted(const FakeResource& resource, const std::string& key) {
  const std::vector<std::string> version = absl::StrSplit(resource.group_version, '/');
  const std::string group = version.size() == 2 ? absl::StrCat(".", version[0]) : "";
  return absl::StrCat(resource.plural, group, " \"", key.substr(key.find('/') + 1), "\"");
}

FakeAnswer NotFound(const FakeResource& resource, const std::string& key) {
  return FakeFailure(404, "NotFound", absl::StrCat(Quoted(resource, key), " not found"));
}

FakeAnswer Conflict(const FakeResource& resource, const std::string& key, const std::string& why) {
  return FakeFailure(
      409, "Conflict",
      absl::StrCat("Operation cannot be fulfilled on ", Quoted(resource, key), ": ", why));
}

bool HasStatus(const FakeResource& resource) {
  static const std::set<std::string> kWithout = {"leases",         "events",          "configmaps",
                                                 "secrets",        "serviceaccounts", "endpoints",
                                                 "priorityclasses"};
  return !kWithout.contains(resource.plural);
}

// Resources of a CustomResourceDefinition do not allow an update without resourceVersion.
bool IsCustom(const FakeResource& resource) {
  return absl::StrContains(resource.group_version, ".") &&
         !absl::StrContains(resource.group_version, ".k8s.io/");
}

bool IsLabel(const std::string& text, bool must_begin_with_letter) {
  if (text.empty() || text.size() > 63) return false;
  const auto edge = [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c)) ||
           absl::ascii_isdigit(static_cast<unsigned char>(c));
  };
  if (!edge(text.front()) || !edge(text.back())) return false;
  if (must_begin_with_letter && !absl::ascii_islower(static_cast<unsigned char>(text.front()))) {
    return false;
  }
  return std::all_of(text.begin(), text.end(), [&](char c) { return edge(c) || c == '-'; });
}

// RFC 1123 subdomains; services: RFC 1035 labels.
bool IsName(const FakeResource& resource, const std::string& name) {
  if (resource.plural == "services") return IsLabel(name, true);
  if (name.size() > 253) return false;
  const std::vector<std::string> parts = absl::StrSplit(name, '.');
  return std::all_of(parts.begin(), parts.end(),
                     [](const std::string& part) { return IsLabel(part, false); });
}

bool HasFinalizers(const Json& object) {
  const Json& metadata = object.at("metadata");
  return metadata.contains("finalizers") && !metadata["finalizers"].empty();
}

bool IsTerminating(const Json& object) {
  return object.at("metadata").contains("deletionTimestamp");
}

std::vector<std::string> Owners(const Json& object) {
  std::vector<std::string> out;
  for (const Json& owner : object.at("metadata").value("ownerReferences", Json::array())) {
    out.push_back(owner.value("uid", ""));
  }
  return out;
}

std::string Suffix(int64_t n) {
  static constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  std::string out;
  for (int i = 0; i < 5; ++i, n /= static_cast<int64_t>(kLetters.size())) {
    out += kLetters[static_cast<size_t>(n) % kLetters.size()];
  }
  return out;
}

}  // namespace

FakeAnswer FakeFailure(int code, const std::string& reason, const std::string& message) {
  return {code,
          {{"kind", "Status"},
           {"apiVersion", "v1"},
           {"metadata", Json::object()},
           {"status", "Failure"},
           {"message", message},
           {"reason", reason},
           {"code", code}}};
}

const Json* FakeStore::Find(const FakeResource& resource, const std::string& key) const {
  const auto table = tables_.find(resource);
  if (table == tables_.end()) return nullptr;
  const auto object = table->second.objects.find(key);
  return object == table->second.objects.end() ? nullptr : &object->second;
}

void FakeStore::Index(const Key& key, const Json& object, bool add) {
  if (object.is_null()) return;
  const std::string uid = object.at("metadata").value("uid", "");
  if (add) {
    by_uid_[uid] = key;
  } else {
    by_uid_.erase(uid);
  }
  for (const std::string& owner : Owners(object)) {
    if (add) {
      dependents_[owner].insert(key);
      continue;
    }
    const auto it = dependents_.find(owner);
    if (it == dependents_.end()) continue;
    it->second.erase(key);
    if (it->second.empty()) dependents_.erase(it);
  }
}

Json FakeStore::Commit(const FakeResource& resource, const std::string& key, Json object) {
  Table& table = tables_[resource];
  FakeChange change;
  change.version = ++version_;
  const auto it = table.objects.find(key);
  if (it != table.objects.end()) change.before = std::move(it->second);
  if (object.is_null()) {
    change.before["metadata"]["resourceVersion"] = absl::StrCat(version_);
  } else {
    object["metadata"]["resourceVersion"] = absl::StrCat(version_);
  }
  Index({resource, key}, change.before, false);
  Index({resource, key}, object, true);
  change.after = object;
  if (object.is_null()) {
    table.objects.erase(it);
  } else {
    table.objects[key] = object;
  }
  table.history.push_back(std::move(change));
  if (table.history.size() > options_.watch_window) {
    table.forgotten = table.history.front().version;
    table.history.pop_front();
  }
  return object;
}

FakeAnswer FakeStore::Get(const FakeResource& resource, const std::string& ns,
                          const std::string& name) const {
  const Json* object = Find(resource, KeyOf(ns, name));
  return object != nullptr ? FakeAnswer{200, *object} : NotFound(resource, KeyOf(ns, name));
}

FakeAnswer FakeStore::Create(const FakeResource& resource, const std::string& ns, Json object) {
  if (!object.is_object()) return FakeFailure(400, "BadRequest", "the body is no object");
  Json& metadata = object["metadata"];
  if (metadata.is_null()) metadata = Json::object();
  if (metadata.value("namespace", ns) != ns) {
    return FakeFailure(400, "BadRequest",
                       "the namespace of the provided object does not match the namespace sent on "
                       "the request");
  }
  std::string name = metadata.value("name", "");
  if (name.empty() && metadata.contains("generateName")) {
    name = absl::StrCat(metadata["generateName"].get<std::string>(), Suffix(++names_));
  }
  const std::string key = KeyOf(ns, name);
  if (!IsName(resource, name)) {
    return FakeFailure(422, "Invalid",
                       absl::StrCat(Quoted(resource, key),
                                    " is invalid: metadata.name: Invalid value: \"", name, "\""));
  }
  if (Find(resource, key) != nullptr) {
    return FakeFailure(409, "AlreadyExists",
                       absl::StrCat(Quoted(resource, key), " already exists"));
  }
  if (metadata.contains("resourceVersion") && metadata["resourceVersion"] != "") {
    return FakeFailure(400, "BadRequest",
                       "resourceVersion should not be set on objects to be created");
  }
  metadata["name"] = name;
  if (!ns.empty()) metadata["namespace"] = ns;
  metadata["uid"] = absl::StrFormat("00000000-0000-4000-8000-%012d", ++uids_);
  metadata["creationTimestamp"] = base::TimeText(options_.clock->Now());
  metadata.erase("deletionTimestamp");
  if (IsCustom(resource)) metadata["generation"] = 1;
  if (HasStatus(resource)) object.erase("status");
  if (resource.plural == "pods") object["status"] = {{"phase", "Pending"}};
  return {201, Commit(resource, key, std::move(object))};
}

FakeAnswer FakeStore::Update(const FakeResource& resource, const std::string& key,
                             const std::string& subresource, Json object) {
  const Json& stored = *Find(resource, key);
  Json next = stored;
  if (subresource == "status") {
    if (object.contains("status")) {
      next["status"] = object["status"];
    } else {
      next.erase("status");
    }
  } else {
    const Json& old_metadata = stored["metadata"];
    next = std::move(object);
    Json& metadata = next["metadata"];
    for (const char* kept : {"uid", "creationTimestamp", "deletionTimestamp", "resourceVersion",
                             "deletionGracePeriodSeconds", "generation", "namespace"}) {
      metadata.erase(kept);
      if (old_metadata.contains(kept)) metadata[kept] = old_metadata[kept];
    }
    if (HasStatus(resource)) {
      next.erase("status");
      if (stored.contains("status")) next["status"] = stored["status"];
    }
    const Json none;
    if (IsCustom(resource) && next.value("spec", none) != stored.value("spec", none)) {
      metadata["generation"] = metadata.value("generation", 0) + 1;
    }
  }
  if (next == stored) return {200, stored};  // no write, no new version
  if (IsTerminating(next) && !HasFinalizers(next) && HasFinalizers(stored)) {
    Erase(resource, key);
    return {200, next};
  }
  return {200, Commit(resource, key, std::move(next))};
}

FakeAnswer FakeStore::Replace(const FakeResource& resource, const std::string& ns,
                              const std::string& name, const std::string& subresource,
                              Json object) {
  const std::string key = KeyOf(ns, name);
  if (!object.is_object() || !object.contains("metadata") || !object["metadata"].is_object() ||
      object["metadata"].value("name", "") != name) {
    return FakeFailure(400, "BadRequest",
                       "the name of the object does not match the name on the URL");
  }
  const Json* stored = Find(resource, key);
  if (stored == nullptr || (subresource == "status" && !HasStatus(resource))) {
    return NotFound(resource, key);
  }
  const Json& metadata = object["metadata"];
  const std::string uid = metadata.value("uid", "");
  if (!uid.empty() && uid != (*stored)["metadata"]["uid"].get<std::string>()) {
    return Conflict(
        resource, key,
        absl::StrCat("Precondition failed: UID in precondition: ", uid,
                     ", UID in object meta: ", (*stored)["metadata"]["uid"].get<std::string>()));
  }
  const std::string version = metadata.value("resourceVersion", "");
  if (version.empty() && IsCustom(resource)) {
    return FakeFailure(422, "Invalid",
                       absl::StrCat(Quoted(resource, key),
                                    " is invalid: metadata.resourceVersion: Invalid value: 0x0: "
                                    "must be specified for an update"));
  }
  if (!version.empty() && version != (*stored)["metadata"].value("resourceVersion", "")) {
    return Conflict(resource, key,
                    "the object has been modified; please apply your changes to the latest version "
                    "and try again");
  }
  return Update(resource, key, subresource, std::move(object));
}

FakeAnswer FakeStore::Patch(const FakeResource& resource, const std::string& ns,
                            const std::string& name, const std::string& subresource,
                            std::string_view content_type, const Json& patch) {
  const std::string key = KeyOf(ns, name);
  const Json* stored = Find(resource, key);
  if (stored == nullptr && content_type == "application/apply-patch+yaml") {
    return Create(resource, ns, patch);
  }
  if (stored == nullptr || (subresource == "status" && !HasStatus(resource))) {
    return NotFound(resource, key);
  }
  if (content_type == "application/strategic-merge-patch+json" && IsCustom(resource)) {
    return FakeFailure(415, "UnsupportedMediaType", "strategic merge is not for custom resources");
  }
  Json next = *stored;
  if (content_type == "application/json-patch+json") {
    try {
      next = next.patch(patch);
    } catch (const Json::exception& error) {
      return FakeFailure(422, "Invalid", error.what());
    }
  } else {
    next.merge_patch(patch);  // strategic and apply, too: lists are replaced
  }
  return Replace(resource, ns, name, subresource, std::move(next));
}

void FakeStore::Erase(const FakeResource& resource, const std::string& key) {
  const std::string uid = (*Find(resource, key))["metadata"]["uid"];
  Commit(resource, key, nullptr);
  if (options_.garbage_collection) DeleteDependents(uid, /*orphan=*/false);
  FinishForeground();
}

bool FakeStore::HasLivingOwner(const Json& object) const {
  const std::vector<std::string> owners = Owners(object);
  return std::any_of(owners.begin(), owners.end(),
                     [&](const std::string& uid) { return by_uid_.contains(uid); });
}

void FakeStore::DeleteDependents(const std::string& uid, bool orphan) {
  const auto found = dependents_.find(uid);
  if (found == dependents_.end()) return;
  const std::set<Key> keys = found->second;
  for (const auto& [resource, key] : keys) {
    const Json* object = Find(resource, key);
    if (object == nullptr) continue;
    const bool others = std::any_of(
        (*object)["metadata"]["ownerReferences"].begin(),
        (*object)["metadata"]["ownerReferences"].end(), [&](const Json& owner) {
          return owner.value("uid", "") != uid && by_uid_.contains(owner.value("uid", ""));
        });
    if (!orphan && !others) {
      BeginDeletion(resource, key, {});
      continue;
    }
    Json freed = *object;
    Json& owners = freed["metadata"]["ownerReferences"];
    for (auto it = owners.begin(); it != owners.end();) {
      it = it->value("uid", "") == uid ? owners.erase(it) : it + 1;
    }
    if (owners.empty()) freed["metadata"].erase("ownerReferences");
    Commit(resource, key, std::move(freed));
  }
}

// Owners that waited for the last of their dependents.
void FakeStore::FinishForeground() {
  for (auto it = foreground_.begin(); it != foreground_.end();) {
    const auto owner = by_uid_.find(*it);
    const bool gone = owner == by_uid_.end();
    if (!gone && dependents_.contains(*it)) {
      ++it;
      continue;
    }
    it = foreground_.erase(it);
    if (gone) continue;
    const Key key = owner->second;
    Json next = *Find(key.first, key.second);
    Json& finalizers = next["metadata"]["finalizers"];
    finalizers.erase(std::remove(finalizers.begin(), finalizers.end(), kForeground),
                     finalizers.end());
    Commit(key.first, key.second, HasFinalizers(next) ? std::move(next) : Json());
  }
}

void FakeStore::BeginDeletion(const FakeResource& resource, const std::string& key,
                              const Json& options) {
  const Json stored = *Find(resource, key);
  const std::string uid = stored["metadata"]["uid"];
  const std::string propagation = options.is_object() ? options.value("propagationPolicy", "") : "";
  const bool at_once = options.is_object() && options.value("gracePeriodSeconds", -1) == 0;
  Json next = stored;
  Json& metadata = next["metadata"];
  const bool foreground = propagation == "Foreground" && dependents_.contains(uid);
  if (foreground && !IsTerminating(stored)) {
    metadata["finalizers"].push_back(kForeground);
    foreground_.insert(uid);
  }
  if (propagation == "Orphan") DeleteDependents(uid, /*orphan=*/true);
  const bool graceful = options_.graceful_pods && resource.plural == "pods" && !at_once;
  if (!graceful && !HasFinalizers(next)) return Erase(resource, key);
  if (!IsTerminating(stored)) {
    metadata["deletionTimestamp"] = base::TimeText(options_.clock->Now());
    metadata["deletionGracePeriodSeconds"] = graceful ? 30 : 0;
    Commit(resource, key, std::move(next));
  }
  if (foreground) {
    DeleteDependents(uid, /*orphan=*/false);
    FinishForeground();
  }
}

FakeAnswer FakeStore::Delete(const FakeResource& resource, const std::string& ns,
                             const std::string& name, const Json& options) {
  const std::string key = KeyOf(ns, name);
  const Json* stored = Find(resource, key);
  if (stored == nullptr) return NotFound(resource, key);
  const Json preconditions =
      options.is_object() ? options.value("preconditions", Json::object()) : Json::object();
  const std::string wanted = preconditions.value("uid", "");
  const std::string is = (*stored)["metadata"]["uid"];
  if (!wanted.empty() && wanted != is) {
    return Conflict(resource, key,
                    absl::StrCat("Precondition failed: UID in precondition: ", wanted,
                                 ", UID in object meta: ", is));
  }
  BeginDeletion(resource, key, options);
  if (const Json* left = Find(resource, key)) return {200, *left};
  return {200, {{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Success"}}};
}

FakeAnswer FakeStore::DeleteCollection(const FakeResource& resource, const std::string& ns,
                                       const std::string& selector, const Json& options) {
  FakeAnswer selected = List(resource, ns, selector, /*limit=*/0, /*continue_token=*/"");
  for (const Json& object : selected.body["items"]) {
    const Json& metadata = object["metadata"];
    BeginDeletion(resource, KeyOf(metadata.value("namespace", ""), metadata["name"]), options);
  }
  return selected;
}

FakeAnswer FakeStore::List(const FakeResource& resource, const std::string& ns,
                           const std::string& selector, int limit,
                           const std::string& continue_token) const {
  const auto found = tables_.find(resource);
  static const Table kEmpty;
  const Table& table = found == tables_.end() ? kEmpty : found->second;
  int64_t version = version_;
  auto it = table.objects.begin();
  if (!continue_token.empty()) {
    const size_t bar = continue_token.find('|');
    if (bar == std::string::npos || !absl::SimpleAtoi(continue_token.substr(0, bar), &version)) {
      return FakeFailure(400, "BadRequest", "continue key is not valid");
    }
    if (version < table.forgotten) {
      return FakeFailure(410, "Expired", "The provided continue parameter is too old");
    }
    it = table.objects.upper_bound(continue_token.substr(bar + 1));
  }
  Json items = Json::array();
  std::string last;
  std::string next;
  for (; it != table.objects.end(); ++it) {
    if (!Selected(it->second, ns, selector)) continue;
    if (limit > 0 && items.size() == static_cast<size_t>(limit)) {
      next = absl::StrCat(version, "|", last);
      break;
    }
    items.push_back(it->second);
    last = it->first;
  }
  Json metadata = {{"resourceVersion", absl::StrCat(version)}};
  if (!next.empty()) metadata["continue"] = next;
  return {200,
          {{"kind", "List"},
           {"apiVersion", resource.group_version},
           {"metadata", std::move(metadata)},
           {"items", std::move(items)}}};
}

Json FakeStore::Put(const FakeResource& resource, Json object) {
  Json& metadata = object["metadata"];
  const std::string key = KeyOf(metadata.value("namespace", ""), metadata.value("name", ""));
  const Json* stored = Find(resource, key);
  for (const char* kept : {"uid", "creationTimestamp"}) {
    if (stored != nullptr && !metadata.contains(kept)) metadata[kept] = (*stored)["metadata"][kept];
  }
  if (!metadata.contains("uid")) {
    metadata["uid"] = absl::StrFormat("00000000-0000-4000-8000-%012d", ++uids_);
  }
  if (!metadata.contains("creationTimestamp")) {
    metadata["creationTimestamp"] = base::TimeText(options_.clock->Now());
  }
  return Commit(resource, key, std::move(object));
}

bool FakeStore::Remove(const FakeResource& resource, const std::string& ns,
                       const std::string& name) {
  if (Find(resource, KeyOf(ns, name)) == nullptr) return false;
  Erase(resource, KeyOf(ns, name));
  return true;
}

void FakeStore::FinishDeletions() {
  std::vector<Key> ready;
  for (const auto& [resource, table] : tables_) {
    for (const auto& [key, object] : table.objects) {
      if (IsTerminating(object) && !HasFinalizers(object)) ready.emplace_back(resource, key);
    }
  }
  for (const auto& [resource, key] : ready) {
    if (Find(resource, key) != nullptr) Erase(resource, key);
  }
}

void FakeStore::CollectGarbage() {
  std::vector<Key> lost;
  for (const auto& [resource, table] : tables_) {
    for (const auto& [key, object] : table.objects) {
      if (!Owners(object).empty() && !HasLivingOwner(object)) lost.emplace_back(resource, key);
    }
  }
  for (const auto& [resource, key] : lost) {
    if (Find(resource, key) != nullptr) BeginDeletion(resource, key, {});
  }
}

std::vector<Json> FakeStore::Objects(const FakeResource& resource, const std::string& ns) const {
  std::vector<Json> out;
  const auto table = tables_.find(resource);
  if (table == tables_.end()) return out;
  for (const auto& [key, object] : table->second.objects) {
    if (Selected(object, ns, "")) out.push_back(object);
  }
  return out;
}

std::optional<std::vector<const FakeChange*>> FakeStore::ChangesAfter(const FakeResource& resource,
                                                                      int64_t version) const {
  std::vector<const FakeChange*> out;
  const auto found = tables_.find(resource);
  if (found == tables_.end()) return out;
  const Table& table = found->second;
  if (version < table.forgotten) return std::nullopt;
  auto it = std::upper_bound(
      table.history.begin(), table.history.end(), version,
      [](int64_t wanted, const FakeChange& change) { return wanted < change.version; });
  for (; it != table.history.end(); ++it) out.push_back(&*it);
  return out;
}

void FakeStore::Compact() {
  ++version_;
  for (auto& [resource, table] : tables_) {
    table.history.clear();
    table.forgotten = version_;
  }
}

}  // namespace kube

// Shows ThreadSanitizer the locks of the system's absl library, which is built without it: linked
// into every program of a thread-sanitized build, these definitions come before the library's own,
// call them, and tell the sanitizer what they order. gRPC's locks are absl's, so it sees those too.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/base/options.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
}

namespace {

#define TRAINYARD_TEXT_(x) #x
#define TRAINYARD_TEXT(x) TRAINYARD_TEXT_(x)

// The library's own definition. `prefix` is "_ZN" or "_ZNK"; `name` is the rest of the mangled name
// after absl's inline namespace.
void* Find(const std::string& prefix, const std::string& name) {
  const std::string space = TRAINYARD_TEXT(ABSL_OPTION_INLINE_NAMESPACE_NAME);
  const std::string symbol = prefix + "4absl" + std::to_string(space.size()) + space + name;
  void* const found = dlsym(RTLD_NEXT, symbol.c_str());
  if (found == nullptr) {
    std::fprintf(stderr, "tsan_absl: no %s in the shared absl library\n", symbol.c_str());
    std::abort();
  }
  return found;
}

// Declares `own`, a pointer to the library's definition.
#define OWN(type, prefix, name) static const auto own = reinterpret_cast<type>(Find(prefix, name))

void* Address(const void* object) { return const_cast<void*>(object); }

// Around a call that gives the lock up: absl evaluates the conditions of other waiters inside it,
// still holding the lock, but after the sanitizer was told of the release.
class Releasing {
 public:
  explicit Releasing(const void* lock) {
    __tsan_release(Address(lock));
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  }
  ~Releasing() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
};

// Around a call that ends with the lock held or the event seen.
class Acquiring {
 public:
  explicit Acquiring(const void* lock) : lock_(lock) {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  }
  ~Acquiring() {
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    __tsan_acquire(Address(lock_));
  }

 private:
  const void* lock_;
};

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  OWN(void (*)(Mutex*), "_ZN", "5Mutex4LockEv");
  const Acquiring acquiring(this);
  own(this);
}

void Mutex::ReaderLock() {
  OWN(void (*)(Mutex*), "_ZN", "5Mutex10ReaderLockEv");
  const Acquiring acquiring(this);
  own(this);
}

bool Mutex::TryLock() {
  OWN(bool (*)(Mutex*), "_ZN", "5Mutex7TryLockEv");
  const bool locked = own(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::Unlock() {
  OWN(void (*)(Mutex*), "_ZN", "5Mutex6UnlockEv");
  const Releasing releasing(this);
  own(this);
}

void Mutex::ReaderUnlock() {
  OWN(void (*)(Mutex*), "_ZN", "5Mutex12ReaderUnlockEv");
  const Releasing releasing(this);
  own(this);
}

void Mutex::Await(const Condition& condition) {
  OWN(void (*)(Mutex*, const Condition&), "_ZN", "5Mutex5AwaitERKNS0_9ConditionE");
  const Acquiring acquiring(this);
  const Releasing releasing(this);
  own(this, condition);
}

void Mutex::LockWhen(const Condition& condition) {
  OWN(void (*)(Mutex*, const Condition&), "_ZN", "5Mutex8LockWhenERKNS0_9ConditionE");
  const Acquiring acquiring(this);
  own(this, condition);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  OWN(bool (*)(Mutex*, const Condition&, Duration), "_ZN",
      "5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  const Acquiring acquiring(this);
  const Releasing releasing(this);
  return own(this, condition, timeout);
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  OWN(bool (*)(Mutex*, const Condition&, Time), "_ZN",
      "5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  const Acquiring acquiring(this);
  const Releasing releasing(this);
  return own(this, condition, deadline);
}

bool Mutex::LockWhenWithTimeout(const Condition& condition, Duration timeout) {
  OWN(bool (*)(Mutex*, const Condition&, Duration), "_ZN",
      "5Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  const Acquiring acquiring(this);
  return own(this, condition, timeout);
}

bool Mutex::LockWhenWithDeadline(const Condition& condition, Time deadline) {
  OWN(bool (*)(Mutex*, const Condition&, Time), "_ZN",
      "5Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  const Acquiring acquiring(this);
  return own(this, condition, deadline);
}

void CondVar::Wait(Mutex* mutex) {
  OWN(void (*)(CondVar*, Mutex*), "_ZN", "7CondVar4WaitEPNS0_5MutexE");
  const Acquiring acquiring(mutex);
  const Releasing releasing(mutex);
  own(this, mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  OWN(bool (*)(CondVar*, Mutex*, Duration), "_ZN",
      "7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  const Acquiring acquiring(mutex);
  const Releasing releasing(mutex);
  return own(this, mutex, timeout);
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  OWN(bool (*)(CondVar*, Mutex*, Time), "_ZN", "7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  const Acquiring acquiring(mutex);
  const Releasing releasing(mutex);
  return own(this, mutex, deadline);
}

// HasBeenNotified is inline and reads the flag that lies behind the mutex: both carry the order.
void Notification::Notify() {
  OWN(void (*)(Notification*), "_ZN", "12Notification6NotifyEv");
  __tsan_release(reinterpret_cast<char*>(this) + sizeof(Mutex));
  const Releasing releasing(this);
  own(this);
}

void Notification::WaitForNotification() const {
  OWN(void (*)(const Notification*), "_ZNK", "12Notification19WaitForNotificationEv");
  const Acquiring acquiring(this);
  own(this);
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  OWN(bool (*)(const Notification*, Duration), "_ZNK",
      "12Notification30WaitForNotificationWithTimeoutENS0_8DurationE");
  const Acquiring acquiring(this);
  return own(this, timeout);
}

bool Notification::WaitForNotificationWithDeadline(Time deadline) const {
  OWN(bool (*)(const Notification*, Time), "_ZNK",
      "12Notification31WaitForNotificationWithDeadlineENS0_4TimeE");
  const Acquiring acquiring(this);
  return own(this, deadline);
}

bool BlockingCounter::DecrementCount() {
  OWN(bool (*)(BlockingCounter*), "_ZN", "15BlockingCounter14DecrementCountEv");
  const Releasing releasing(this);
  return own(this);
}

void BlockingCounter::Wait() {
  OWN(void (*)(BlockingCounter*), "_ZN", "15BlockingCounter4WaitEv");
  const Acquiring acquiring(this);
  own(this);
}

ABSL_NAMESPACE_END
}  // namespace absl

#include "trainer/ps/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <thread>

#include <gtest/gtest.h>

#include "trainer/ps/test_cluster.h"

namespace trainer {
namespace {

// The worker's sides of two channels; the tests use the second one.
std::vector<std::unique_ptr<SharedMemory>> Channels(int64_t elements) {
  auto channels = SharedMemory::Create(elements, 2);
  EXPECT_TRUE(channels.ok()) << channels.status().message();
  return *std::move(channels);
}

TEST(SharedMemory, BothSidesSeeTheSameBytes) {
  auto worker = Channels(1000);
  auto server = SharedMemory::Open(worker[1]->name(), worker[1]->nonce(), 1);
  ASSERT_TRUE(server.ok()) << server.status().message();
  EXPECT_OK(worker[1]->Reserve());
  EXPECT_EQ((*server)->elements(), 1000);
  worker[1]->gradient()[999] = 5.0f;
  EXPECT_EQ((*server)->gradient()[999], 5.0f);
  (*server)->variables()[0] = 7.0f;
  EXPECT_EQ(worker[1]->variables()[0], 7.0f);
  EXPECT_NE(worker[1]->gradient()[0], 7.0f);
}

TEST(SharedMemory, LeavesNoNameBehind) {
  auto worker = Channels(10);
  const std::string name = worker[1]->name();
  const uint64_t nonce = worker[1]->nonce();
  worker[0]->Unlink();
  EXPECT_TRUE(absl::IsFailedPrecondition(SharedMemory::Open(name, nonce, 1).status()));
  std::string second;
  {
    const auto other = Channels(10);
    second = other[0]->name();
  }
  EXPECT_LT(shm_open(second.c_str(), O_RDWR, 0), 0);
}

TEST(SharedMemory, IsRefusedWithAnotherNonceOrSize) {
  auto worker = Channels(10);
  EXPECT_FALSE(SharedMemory::Open(worker[1]->name(), worker[1]->nonce() + 1, 1).ok());
  EXPECT_FALSE(SharedMemory::Open("/trainyard-/../../etc/passwd", 0, 1).ok());
  const int fd = shm_open(worker[1]->name().c_str(), O_RDWR, 0);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, 4096), 0);  // shorter than it claims
  close(fd);
  EXPECT_FALSE(SharedMemory::Open(worker[1]->name(), worker[1]->nonce(), 1).ok());
}

TEST(SharedMemory, KnowsWhetherTheOtherSideLives) {
  auto worker = Channels(10);
  EXPECT_FALSE(worker[1]->OtherSideLives());
  auto server = SharedMemory::Open(worker[1]->name(), worker[1]->nonce(), 1);
  ASSERT_TRUE(server.ok());
  EXPECT_TRUE(worker[1]->OtherSideLives());
  EXPECT_TRUE((*server)->OtherSideLives());
  worker.clear();
  EXPECT_FALSE((*server)->OtherSideLives());
}

TEST(Doorbell, WakesTheSleeperEveryTime) {
  auto memory = Channels(1);
  Doorbell& ping = memory[1]->request().bell;
  Doorbell& pong = memory[1]->reply().bell;
  constexpr uint32_t kRounds = 20'000;
  std::jthread other([&] {
    bool spin = false;
    for (uint32_t i = 0; i < kRounds; ++i) {
      while (ping.count() == i) ping.Wait(i, absl::Seconds(60), &spin);
      pong.Ring();
    }
  });
  bool spin = true;
  for (uint32_t i = 0; i < kRounds; ++i) {
    ping.Ring();
    while (pong.count() == i) pong.Wait(i, absl::Seconds(60), &spin);
  }
  EXPECT_EQ(pong.count(), kRounds);
}

TEST(Doorbell, GivesUpAfterItsTimeout) {
  auto memory = Channels(1);
  bool spin = false;
  memory[1]->reply().bell.Wait(0, absl::Milliseconds(5), &spin);
  EXPECT_EQ(memory[1]->reply().bell.count(), 0u);
}

}  // namespace
}  // namespace trainer

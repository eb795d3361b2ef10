#include "trainer/cuda/plugin/memory_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

namespace trainer::cuda {
namespace {

using testing::HasSubstr;

constexpr int64_t kMib = int64_t{1} << 20;

// A device with `size` bytes that counts what it has given.
struct Device {
  int64_t size = 0;
  int blocks = 0;
  MemorySource Source() {
    return {[this](int64_t bytes) -> void* {
              if (bytes > size) return nullptr;
              ++blocks;
              return std::aligned_alloc(256, static_cast<size_t>(bytes));
            },
            [this](void* memory) {
              --blocks;
              std::free(memory);
            }};
  }
};

TEST(MemoryPoolTest, PiecesAreAlignedAndDoNotOverlap) {
  Device device{.size = kMib};
  MemoryPool pool(device.Source(), kMib, false);
  std::string why;
  std::set<char*> pieces;
  for (int i = 0; i < 8; ++i) pieces.insert(static_cast<char*>(pool.Allocate(100, &why)));
  ASSERT_EQ(pieces.size(), 8u);
  char* last = nullptr;
  for (char* piece : pieces) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 256, 0u);
    EXPECT_TRUE(last == nullptr || piece - last >= 256);
    last = piece;
  }
}

TEST(MemoryPoolTest, FreedNeighboursBecomeOnePieceAgain) {
  Device device{.size = kMib};
  MemoryPool pool(device.Source(), kMib, false);
  std::string why;
  for (int order = 0; order < 2; ++order) {
    void* const a = pool.Allocate(kMib / 2, &why);
    void* const b = pool.Allocate(kMib / 4, &why);
    void* const c = pool.Allocate(kMib / 4, &why);
    ASSERT_TRUE(a != nullptr && b != nullptr && c != nullptr) << why;
    EXPECT_EQ(pool.Allocate(1, &why), nullptr);
    for (void* piece : order == 0 ? std::vector{a, c, b} : std::vector{c, a, b}) pool.Free(piece);
    void* const whole = pool.Allocate(kMib, &why);
    EXPECT_NE(whole, nullptr) << why;
    pool.Free(whole);
  }
}

TEST(MemoryPoolTest, WithoutGrowthAllOfTheShareIsTakenAtOnce) {
  Device device{.size = 1000 * kMib};
  MemoryPool pool(device.Source(), 500 * kMib, false);
  std::string why;
  EXPECT_EQ(pool.taken_bytes(), 0);
  pool.Allocate(1, &why);
  EXPECT_EQ(pool.taken_bytes(), 500 * kMib);
}

TEST(MemoryPoolTest, WithGrowthItStartsSmallAndGrowsToTheShare) {
  Device device{.size = 1000 * kMib};
  MemoryPool pool(device.Source(), 200 * kMib, true);
  std::string why;
  pool.Allocate(1, &why);
  EXPECT_EQ(pool.taken_bytes(), 64 * kMib);
  EXPECT_NE(pool.Allocate(100 * kMib, &why), nullptr);
  EXPECT_EQ(pool.taken_bytes(), 164 * kMib);
  EXPECT_EQ(pool.Allocate(100 * kMib, &why), nullptr);
  EXPECT_THAT(why, HasSubstr("needs 100.0 MiB more where this process may use 200.0 MiB and has "
                             "taken 164.0 MiB"));
  EXPECT_THAT(why, HasSubstr("--per_process_gpu_memory_fraction"));
}

TEST(MemoryPoolTest, SaysSoWhereOthersHaveTheMemory) {
  Device device{.size = 10 * kMib};
  MemoryPool pool(device.Source(), 20 * kMib, false);
  std::string why;
  EXPECT_EQ(pool.Allocate(1, &why), nullptr);
  EXPECT_THAT(why, HasSubstr("the device does not give 20.0 MiB"));
  EXPECT_THAT(why, HasSubstr("--allow_growth"));
}

TEST(MemoryPoolTest, GivesEverythingBackAtItsEnd) {
  Device device{.size = 1000 * kMib};
  {
    MemoryPool pool(device.Source(), 200 * kMib, true);
    std::string why;
    pool.Allocate(70 * kMib, &why);
    pool.Allocate(70 * kMib, &why);
    EXPECT_EQ(device.blocks, 2);
  }
  EXPECT_EQ(device.blocks, 0);
}

}  // namespace
}  // namespace trainer::cuda

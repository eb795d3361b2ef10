#include "trainer/data/glyphs.h"

#include <array>

namespace trainer {
namespace {

// A closed ellipse-like loop, started at the top, counter-clockwise.
constexpr Point kOval[] = {{0.1f, -1.4f}, {-0.9f, -1.4f}, {-0.95f, 0.0f},
                           {-0.9f, 1.4f}, {0.0f, 1.4f},   {0.9f, 1.4f},
                           {0.95f, 0.0f}, {0.9f, -1.4f},  {0.1f, -1.4f}};
constexpr Point kSlantedOval[] = {{0.5f, -1.3f},  {-0.6f, -1.5f}, {-0.9f, 0.3f},
                                  {-1.0f, 1.4f},  {-0.2f, 1.35f}, {0.8f, 1.2f},
                                  {0.95f, -0.3f}, {0.9f, -1.3f},  {0.2f, -1.2f}};

constexpr Point kBar[] = {{0.05f, -1.4f}, {0.0f, 0.0f}, {-0.05f, 1.4f}};
constexpr Point kFlag[] = {{0.1f, -1.4f}, {-0.1f, -1.0f}, {-0.5f, -0.8f}};
constexpr Point kFoot[] = {{-0.6f, 1.4f}, {0.0f, 1.38f}, {0.6f, 1.4f}};

constexpr Point kTwo[] = {{-0.85f, -0.8f}, {-0.6f, -1.45f}, {0.1f, -1.4f},
                          {0.95f, -1.3f},  {0.7f, -0.4f},   {0.4f, 0.3f},
                          {-0.9f, 1.35f},  {0.0f, 1.3f},    {0.95f, 1.35f}};
constexpr Point kLoopedTwo[] = {{-0.8f, -0.9f}, {-0.3f, -1.5f}, {0.3f, -1.3f}, {1.0f, -0.9f},
                                {0.3f, 0.1f},   {-0.3f, 1.0f},  {-0.7f, 1.2f}, {-1.2f, 0.8f},
                                {-0.6f, 0.75f}, {0.0f, 0.9f},   {0.9f, 1.3f}};

constexpr Point kThree[] = {{-0.75f, -1.1f}, {-0.2f, -1.55f}, {0.3f, -1.3f},   {0.95f, -0.9f},
                            {0.4f, -0.35f},  {0.1f, -0.1f},   {-0.25f, -0.1f}, {0.5f, -0.15f},
                            {0.75f, 0.4f},   {0.9f, 1.2f},    {0.0f, 1.4f},    {-0.6f, 1.45f},
                            {-0.9f, 1.0f}};
constexpr Point kFlatThree[] = {{-0.7f, -1.35f}, {0.0f, -1.35f}, {0.7f, -1.35f},
                                {0.3f, -0.9f},   {-0.1f, -0.3f}, {0.9f, -0.4f},
                                {0.8f, 0.5f},    {0.6f, 1.5f},   {-0.8f, 1.25f}};

constexpr Point kFourLeft[] = {
    {-0.55f, -1.3f}, {-0.75f, -0.6f}, {-0.85f, 0.15f}, {0.0f, 0.2f}, {0.9f, 0.05f}};
constexpr Point kFourStem[] = {{0.55f, -1.2f}, {0.45f, 0.0f}, {0.35f, 1.4f}};
constexpr Point kClosedFour[] = {
    {0.35f, -1.4f}, {-0.3f, -0.5f}, {-0.9f, 0.35f}, {0.0f, 0.4f}, {0.95f, 0.35f}};
constexpr Point kClosedFourStem[] = {{0.35f, -1.4f}, {0.35f, 0.0f}, {0.35f, 1.4f}};

constexpr Point kFiveBody[] = {{-0.5f, -1.3f}, {-0.6f, -0.8f}, {-0.65f, -0.25f},
                               {0.2f, -0.6f},  {0.7f, 0.1f},   {1.0f, 1.0f},
                               {0.1f, 1.35f},  {-0.5f, 1.5f},  {-0.8f, 1.05f}};
constexpr Point kFiveTop[] = {{-0.5f, -1.3f}, {0.1f, -1.3f}, {0.8f, -1.4f}};
constexpr Point kRoundFive[] = {{0.75f, -1.35f}, {0.0f, -1.4f},  {-0.55f, -1.2f},
                                {-0.7f, -0.8f},  {-0.5f, -0.3f}, {0.0f, -0.2f},
                                {0.5f, 0.2f},    {0.9f, 1.2f},   {-0.7f, 1.3f}};

constexpr Point kSix[] = {{0.5f, -1.4f}, {-0.4f, -1.0f}, {-0.75f, 0.2f}, {-0.9f, 1.35f},
                          {0.0f, 1.4f},  {0.85f, 1.35f}, {0.8f, 0.65f},  {0.7f, -0.1f},
                          {0.0f, 0.0f},  {-0.5f, 0.1f},  {-0.7f, 0.7f}};
constexpr Point kStraightSix[] = {{0.2f, -1.4f}, {-0.5f, -0.4f}, {-0.6f, 0.5f},
                                  {-0.7f, 1.4f}, {0.1f, 1.3f},   {0.9f, 1.1f},
                                  {0.4f, 0.4f},  {0.0f, 0.1f},   {-0.6f, 0.6f}};

constexpr Point kSeven[] = {
    {-0.85f, -1.2f}, {0.0f, -1.3f}, {0.8f, -1.3f}, {0.3f, -0.3f}, {-0.15f, 1.4f}};
constexpr Point kSevenBar[] = {{-0.4f, 0.1f}, {0.1f, 0.0f}, {0.6f, 0.0f}};
constexpr Point kHookedSeven[] = {{-0.8f, -0.8f}, {-0.8f, -1.3f}, {-0.6f, -1.25f}, {0.2f, -1.15f},
                                  {0.75f, -1.3f}, {0.6f, -0.2f},  {0.2f, 1.4f}};

constexpr Point kEight[] = {{0.6f, -1.1f}, {0.0f, -1.6f}, {-0.55f, -1.1f}, {-0.8f, -0.6f},
                            {0.0f, -0.1f}, {0.9f, 0.5f},  {0.7f, 1.0f},    {0.0f, 1.7f},
                            {-0.7f, 1.0f}, {-0.8f, 0.4f}, {0.0f, -0.1f},   {0.8f, -0.6f},
                            {0.6f, -1.1f}};
constexpr Point kEightTop[] = {{0.0f, -1.4f},   {-0.75f, -1.4f}, {-0.65f, -0.75f},
                               {-0.55f, -0.1f}, {0.0f, -0.1f},   {0.65f, -0.1f},
                               {0.65f, -0.75f}, {0.65f, -1.4f},  {0.0f, -1.4f}};
constexpr Point kEightBottom[] = {{0.0f, -0.1f}, {-0.9f, -0.1f}, {-0.8f, 0.7f},
                                  {-0.7f, 1.4f}, {0.0f, 1.4f},   {0.8f, 1.4f},
                                  {0.8f, 0.7f},  {0.8f, -0.1f},  {0.0f, -0.1f}};

constexpr Point kNine[] = {{0.65f, -0.9f}, {0.2f, -1.5f}, {-0.35f, -1.3f}, {-0.95f, -0.9f},
                           {-0.6f, -0.4f}, {-0.2f, 0.1f}, {0.4f, -0.4f},   {0.65f, -0.65f},
                           {0.65f, -0.9f}, {0.65f, 0.2f}, {0.35f, 1.4f}};
constexpr Point kCurledNine[] = {{0.6f, -0.9f},   {0.1f, -1.6f}, {-0.5f, -1.0f}, {-0.8f, -0.3f},
                                 {-0.1f, -0.25f}, {0.5f, -0.3f}, {0.6f, -0.9f},  {0.8f, 0.3f},
                                 {0.4f, 1.0f},    {0.0f, 1.5f},  {-0.6f, 1.2f}};

constexpr Stroke kZeroA[] = {kOval};
constexpr Stroke kZeroB[] = {kSlantedOval};
constexpr Stroke kOneA[] = {kBar};
constexpr Stroke kOneB[] = {kBar, kFlag};
constexpr Stroke kOneC[] = {kBar, kFlag, kFoot};
constexpr Stroke kTwoA[] = {kTwo};
constexpr Stroke kTwoB[] = {kLoopedTwo};
constexpr Stroke kThreeA[] = {kThree};
constexpr Stroke kThreeB[] = {kFlatThree};
constexpr Stroke kFourA[] = {kFourLeft, kFourStem};
constexpr Stroke kFourB[] = {kClosedFour, kClosedFourStem};
constexpr Stroke kFiveA[] = {kFiveBody, kFiveTop};
constexpr Stroke kFiveB[] = {kRoundFive};
constexpr Stroke kSixA[] = {kSix};
constexpr Stroke kSixB[] = {kStraightSix};
constexpr Stroke kSevenA[] = {kSeven};
constexpr Stroke kSevenB[] = {kSeven, kSevenBar};
constexpr Stroke kSevenC[] = {kHookedSeven};
constexpr Stroke kEightA[] = {kEight};
constexpr Stroke kEightB[] = {kEightTop, kEightBottom};
constexpr Stroke kNineA[] = {kNine};
constexpr Stroke kNineB[] = {kCurledNine};

constexpr Glyph kZeros[] = {kZeroA, kZeroB};
constexpr Glyph kOnes[] = {kOneA, kOneB, kOneC};
constexpr Glyph kTwos[] = {kTwoA, kTwoB};
constexpr Glyph kThrees[] = {kThreeA, kThreeB};
constexpr Glyph kFours[] = {kFourA, kFourB};
constexpr Glyph kFives[] = {kFiveA, kFiveB};
constexpr Glyph kSixes[] = {kSixA, kSixB};
constexpr Glyph kSevens[] = {kSevenA, kSevenB, kSevenC};
constexpr Glyph kEights[] = {kEightA, kEightB};
constexpr Glyph kNines[] = {kNineA, kNineB};

constexpr std::array<std::span<const Glyph>, 10> kDigits = {
    kZeros, kOnes, kTwos, kThrees, kFours, kFives, kSixes, kSevens, kEights, kNines};

}  // namespace

std::span<const Glyph> GlyphsOf(int digit) { return kDigits[digit]; }

}  // namespace trainer

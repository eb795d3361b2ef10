#include "base/task_certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>

#include "absl/time/clock.h"
#include "base/task_tls.h"

namespace base {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kUid[] = "3f0d4cbe-5a4c-4b7e-9f61-2d6d2a1f7c11";

using Bio = std::unique_ptr<BIO, decltype(&BIO_free_all)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

Bio Reader(const std::string& pem) {
  return {BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free_all};
}
Certificate ReadCertificate(const std::string& pem) {
  return {PEM_read_bio_X509(Reader(pem).get(), nullptr, nullptr, nullptr), X509_free};
}
Key ReadKey(const std::string& pem) {
  return {PEM_read_bio_PrivateKey(Reader(pem).get(), nullptr, nullptr, nullptr), EVP_PKEY_free};
}

TaskCertificates Make(absl::Time now = absl::Now()) {
  auto made = MakeTaskCertificates(kUid, now);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? *std::move(made) : TaskCertificates();
}

// The verdict on `certificate` of who trusts `authority` alone.
int Verify(const TaskCertificates& authority, const TaskCertificates& certificate, int purpose) {
  const Certificate root = ReadCertificate(authority.authority);
  const Certificate leaf = ReadCertificate(certificate.certificate);
  X509_STORE* const store = X509_STORE_new();
  X509_STORE_add_cert(store, root.get());
  X509_STORE_CTX* const context = X509_STORE_CTX_new();
  X509_STORE_CTX_init(context, store, leaf.get(), nullptr);
  X509_STORE_CTX_set_purpose(context, purpose);
  X509_VERIFY_PARAM_set1_host(X509_STORE_CTX_get0_param(context), kTaskTlsName, 0);
  X509_verify_cert(context);
  const int verdict = X509_STORE_CTX_get_error(context);
  X509_STORE_CTX_free(context);
  X509_STORE_free(store);
  return verdict;
}

TEST(TaskCertificates, AreGoodForServersAndClientsOfTheJob) {
  const TaskCertificates made = Make();
  EXPECT_EQ(Verify(made, made, X509_PURPOSE_SSL_SERVER), X509_V_OK);
  EXPECT_EQ(Verify(made, made, X509_PURPOSE_SSL_CLIENT), X509_V_OK);
  EXPECT_EQ(
      X509_check_private_key(ReadCertificate(made.certificate).get(), ReadKey(made.key).get()), 1);
}

TEST(TaskCertificates, AreNoGoodInAnotherJobAlsoOfTheSameUid) {
  EXPECT_NE(Verify(Make(), Make(), X509_PURPOSE_SSL_SERVER), X509_V_OK);
}

TEST(TaskCertificates, DoNotHoldTheKeyOfTheAuthority) {
  const TaskCertificates made = Make();
  const Certificate authority = ReadCertificate(made.authority);
  EXPECT_NE(X509_check_private_key(authority.get(), ReadKey(made.key).get()), 1);
  EXPECT_THAT(made.authority, Not(HasSubstr("PRIVATE KEY")));
  EXPECT_THAT(made.certificate, Not(HasSubstr("PRIVATE KEY")));
}

TEST(TaskCertificates, CannotSignOthers) {
  EXPECT_EQ(X509_check_ca(ReadCertificate(Make().certificate).get()), 0);
}

TEST(TaskCertificates, OutliveLongJobsAndForgiveClocksThatDiffer) {
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  const Certificate leaf = ReadCertificate(Make(now).certificate);
  time_t early = absl::ToTimeT(now - absl::Minutes(50));
  time_t late = absl::ToTimeT(now + absl::Hours(24 * 365 * 9));
  EXPECT_EQ(X509_cmp_time(X509_get0_notBefore(leaf.get()), &early), -1);
  EXPECT_EQ(X509_cmp_time(X509_get0_notAfter(leaf.get()), &late), 1);
}

TEST(TaskCertificates, NameAnOwnerOfAnyLength) {
  EXPECT_TRUE(MakeTaskCertificates(std::string(300, 'u'), absl::Now()).ok());
}

}  // namespace
}  // namespace base

// A stranger at the door of a job's parameter server: whatever it brings, it neither reads nor
// changes a variable, and both sides say why.
#include "trainer/ps/task_tls.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include "absl/time/clock.h"
#include "base/task_tls.h"
#include "trainer/ps/param_server.grpc.pb.h"
#include "trainer/ps/test_cluster.h"
#include "trainer/ps/test_tls.h"

namespace trainer {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kTimeout = absl::Seconds(10);

PsClientOptions As(const TestCluster& cluster, int worker, std::shared_ptr<const TaskTls> tls) {
  PsClientOptions options = cluster.ClientOptions(worker);
  options.tls = std::move(tls);
  options.call_timeout = kTimeout;
  return options;
}

// A job of one parameter server with a chief that has pushed once: version 1, variables 1 and 2.
class Job : public ::testing::Test {
 protected:
  void SetUp() override {
    chief_ = PsClient::Create(As(cluster_, 0, tls_));
    TestCluster::Initialize(*chief_, config_, std::vector<float>{2, 3});
    ASSERT_OK(chief_->Attach(config_));
    std::vector<float> next(2);
    const auto pushed = chief_->Exchange(std::vector<float>{1, 1}, 0, next, {});
    ASSERT_OK(pushed.status());
  }

  void TearDown() override {
    std::vector<float> values(2);
    const auto pulled = chief_->Pull(values);
    ASSERT_OK(pulled.status());
    EXPECT_EQ(pulled->global_step, 1);
    EXPECT_EQ(values, (std::vector<float>{1, 2}));
    EXPECT_EQ(cluster_.server(0).stats().pushes, 1);
    EXPECT_EQ(cluster_.server(0).stats().state, PsState::kReady);
  }

  // Everything that a client can ask for is refused. Returns how GetStatus was.
  absl::Status ExpectRefused(std::shared_ptr<const TaskTls> tls) {
    const auto stranger = PsClient::Create(As(cluster_, 1, std::move(tls)));
    const absl::Status status = stranger->GetStatus(kTimeout)[0].status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status.message();
    EXPECT_FALSE(stranger->Attach(config_).ok());
    EXPECT_FALSE(stranger->Configure(0, config_).ok());
    EXPECT_FALSE(stranger->SaveShards("/tmp/never").ok());
    EXPECT_FALSE(stranger->Finish().ok());
    return status;
  }

  const TlsFolder folder_;
  const std::shared_ptr<const TaskTls> tls_ = *folder_.Load();
  TestCluster cluster_{1, {.tls = tls_}};
  const JobConfig config_ = MakeJob({{2}});
  std::unique_ptr<PsClient> chief_;
};

TEST_F(Job, TrainsWithItsOwnCertificate) {
  const auto worker = PsClient::Create(As(cluster_, 1, tls_));
  ASSERT_OK(worker->Attach(config_));
  std::vector<float> values(2);
  ASSERT_OK(worker->Pull(values).status());
  EXPECT_EQ(values, (std::vector<float>{1, 2}));
}

TEST_F(Job, RefusesPlainText) {
  const absl::Status status = ExpectRefused(nullptr);
  EXPECT_THAT(TlsTrouble(status, nullptr), HasSubstr("perhaps it speaks TLS")) << status.message();
}

TEST_F(Job, RefusesTheCertificateOfAnotherJob) {
  const std::shared_ptr<const TaskTls> other = MakeTls();
  const absl::Status status = ExpectRefused(other);
  EXPECT_EQ(TlsTrouble(status, other.get()), "its certificate is not of this job")
      << status.message();
}

// Knows the job's authority, which is no secret, and even trusts whoever answers.
TEST_F(Job, RefusesWhoShowsNoCertificate) {
  const TlsFolder other;
  for (const bool with_certificate_of_another_job : {false, true}) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = folder_.Read(base::kTaskTlsAuthority);
    if (with_certificate_of_another_job) {
      options.pem_private_key = other.Read(base::kTaskTlsKey);
      options.pem_cert_chain = other.Read(base::kTaskTlsCertificate);
    }
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride(base::kTaskTlsName);
    const auto stub = wire::ParameterServer::NewStub(grpc::CreateCustomChannel(
        cluster_.addresses()[0], grpc::SslCredentials(options), arguments));
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kTimeout));
    wire::StatusReply reply;
    const grpc::Status status = stub->GetStatus(&context, {}, &reply);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  }
}

TEST(TaskTls, RefusesToSpeakWithAPlainServer) {
  TestCluster cluster(1);
  const std::shared_ptr<const TaskTls> tls = MakeTls();
  const auto client = PsClient::Create(As(cluster, 0, tls));
  const absl::Status status = client->GetStatus(kTimeout)[0].status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(TlsTrouble(status, tls.get()), "it speaks plain text where this job's tasks speak TLS")
      << status.message();
}

TEST(TaskTls, NamesTheFileThatIsMissingOrBroken) {
  const TlsFolder folder;
  folder.Write(base::kTaskTlsCertificate, "no PEM");
  EXPECT_THAT(folder.Load().status().message(), HasSubstr("/tls.crt is no PEM file"));
  folder.Remove(base::kTaskTlsKey);
  folder.Write(base::kTaskTlsCertificate, "-----BEGIN CERTIFICATE-----");
  const absl::Status status = folder.Load().status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("/tls.key"));
}

TEST(TaskTls, HasNothingToSayOfOtherTroubles) {
  EXPECT_EQ(TlsTrouble(absl::UnavailableError("Connection refused"), nullptr), "");
  EXPECT_EQ(TlsTrouble(absl::InternalError("Socket closed"), nullptr), "");
  EXPECT_EQ(TlsTrouble(absl::UnavailableError("Connection refused"), MakeTls().get()), "");
}

}  // namespace
}  // namespace trainer

// Kubeconfig files, service accounts, token files and credential plug-ins, good and bad.
#include "operator/kube/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "operator/kube/config_environment.h"
#include "operator/kube/credentials.h"
#include "operator/kube/kubeconfig.h"
#include "operator/kube/subprocess.h"
#include "operator/kube/test_server.h"

namespace kube {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Folder {
 public:
  Folder() {
    std::string path = absl::StrCat(::testing::TempDir(), "/kube_config_XXXXXX");
    path_ = mkdtemp(path.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string Write(const std::string& name, const std::string& text, bool executable = false) {
    const std::string path = absl::StrCat(path_, "/", name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
    if (executable) chmod(path.c_str(), 0755);
    return path;
  }
  std::string Read(const std::string& name) {
    std::ifstream file(absl::StrCat(path_, "/", name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Machine {
  std::map<std::string, std::string> variables;
  base::FakeClock clock{absl::FromUnixSeconds(1'700'000'000)};
  Folder folder;

  ConfigEnvironment Environment() {
    return {.getenv = [this](const char* name) { return variables[name]; },
            .service_account = folder.path() + "/sa",
            .clock = &clock};
  }
  absl::StatusOr<Config> Load(const ConfigSource& source = {}) {
    return LoadConfigFrom(source, Environment());
  }
};

constexpr char kWhole[] = R"(
apiVersion: v1
kind: Config
current-context: one
clusters:
- name: c1
  cluster: {server: "https://one:6443", certificate-authority-data: CA64}
- name: c2
  cluster:
    server: http://two
    tls-server-name: name.example
    proxy-url: http://proxy:3128
- name: c3
  cluster: {server: https://three, insecure-skip-tls-verify: true}
users:
- name: u1
  user: {client-certificate: pki/cert.pem, client-key: pki/key.pem}
- name: u2
  user: {token: secret}
- name: u3
  user: {username: me, password: "1234"}
- name: u4
  user: {tokenFile: token}
contexts:
- name: one
  context: {cluster: c1, user: u1, namespace: ns1}
- {name: two, context: {cluster: c2, user: u2}}
- {name: three, context: {cluster: c3, user: u3}}
- {name: four, context: {cluster: c1, user: u4}}
- {name: nobody, context: {cluster: c1}}
)";

std::string Whole() {
  return absl::StrReplaceAll(kWhole, {{"CA64", absl::Base64Escape(Pki().ca_pem)}});
}

TEST(ConfigTest, ReadsEachWayToGiveCredentials) {
  Machine m;
  const std::string file = m.folder.Write("config", Whole());
  m.folder.Write("pki/cert.pem", Pki().client.certificate_pem);
  m.folder.Write("pki/key.pem", Pki().client.key_pem);
  m.folder.Write("token", "t1\n");
  auto config = m.Load({.kubeconfig = file});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://one:6443");
  EXPECT_EQ(config->ca_pem, Pki().ca_pem);
  EXPECT_EQ(config->client_certificate_pem, Pki().client.certificate_pem);
  EXPECT_EQ(config->client_key_pem, Pki().client.key_pem);
  EXPECT_EQ(config->ns, "ns1");
  EXPECT_FALSE(config->token);
  EXPECT_TRUE(MakeTransport(*config).ok());

  config = m.Load({.kubeconfig = file, .context = "two"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "http://two");
  EXPECT_EQ(config->tls_server_name, "name.example");
  EXPECT_EQ(config->proxy_url, "http://proxy:3128");
  EXPECT_EQ(*config->token(), "secret");

  config = m.Load({.kubeconfig = file, .context = "three", .master = "https://elsewhere"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->insecure);
  EXPECT_EQ(config->server, "https://elsewhere");
  EXPECT_EQ(config->username, "me");
  EXPECT_EQ(config->password, "1234");

  config = m.Load({.kubeconfig = file, .context = "four"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(*config->token(), "t1");
  EXPECT_TRUE(m.Load({.kubeconfig = file, .context = "nobody"}).ok());
}

TEST(ConfigTest, LooksInOrder) {
  Machine m;
  const auto with_server = [](const std::string& server) {
    return absl::StrReplaceAll(Whole(), {{"https://one:6443", server}});
  };
  m.folder.Write("pki/cert.pem", Pki().client.certificate_pem);
  m.folder.Write("pki/key.pem", Pki().client.key_pem);
  m.folder.Write("home/pki/cert.pem", Pki().client.certificate_pem);
  m.folder.Write("home/.kube/pki/cert.pem", Pki().client.certificate_pem);
  m.folder.Write("home/.kube/pki/key.pem", Pki().client.key_pem);
  m.folder.Write("home/.kube/config", with_server("https://home"));
  m.folder.Write("sa/token", "sa-token");
  m.folder.Write("sa/ca.crt", Pki().ca_pem);
  m.folder.Write("sa/namespace", "sa-ns\n");
  const std::string from_variable = m.folder.Write("var", with_server("https://var"));
  const std::string given = m.folder.Write("given", with_server("https://given"));

  m.variables["HOME"] = m.folder.path() + "/home";
  EXPECT_EQ(m.Load()->server, "https://home");
  m.variables["KUBERNETES_SERVICE_HOST"] = "10.0.0.1";
  m.variables["KUBERNETES_SERVICE_PORT"] = "443";
  const auto in_cluster = m.Load();
  ASSERT_TRUE(in_cluster.ok()) << in_cluster.status();
  EXPECT_EQ(in_cluster->server, "https://10.0.0.1:443");
  EXPECT_EQ(*in_cluster->token(), "sa-token");
  EXPECT_EQ(in_cluster->ca_pem, Pki().ca_pem);
  EXPECT_EQ(in_cluster->ns, "sa-ns");
  m.variables["KUBERNETES_SERVICE_HOST"] = "fd00::1";
  EXPECT_EQ(m.Load()->server, "https://kubernetes.default.svc:443");
  m.variables["KUBECONFIG"] = absl::StrCat(":/no/such/file:", from_variable, ":", given);
  EXPECT_EQ(m.Load()->server, "https://var");
  EXPECT_EQ(m.Load({.kubeconfig = given})->server, "https://given");
}

TEST(ConfigTest, SaysWhereItLookedInVain) {
  Machine m;
  EXPECT_THAT(std::string(m.Load().status().message()),
              AllOf(HasSubstr("KUBERNETES_SERVICE_HOST"), HasSubstr("--kubeconfig")));
  EXPECT_EQ(m.Load({.master = "http://127.0.0.1:8001"})->server, "http://127.0.0.1:8001");
  EXPECT_THAT(std::string(m.Load({.master = "127.0.0.1"}).status().message()),
              HasSubstr("--master"));
  m.variables["KUBECONFIG"] = "/no/such/file";
  EXPECT_THAT(std::string(m.Load().status().message()), HasSubstr("/no/such/file: cannot be read"));
  m.variables = {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}};
  EXPECT_THAT(std::string(m.Load().status().message()), HasSubstr("KUBERNETES_SERVICE_PORT"));
  m.variables["KUBERNETES_SERVICE_PORT"] = "443";
  EXPECT_THAT(std::string(m.Load().status().message()), HasSubstr("sa/ca.crt: cannot be read"));
  m.folder.Write("sa/ca.crt", "nonsense");
  EXPECT_THAT(std::string(m.Load().status().message()), HasSubstr("sa/ca.crt: holds no PEM"));
  m.folder.Write("sa/ca.crt", Pki().ca_pem);
  EXPECT_THAT(std::string(m.Load().status().message()), HasSubstr("sa/token: cannot be read"));
  m.folder.Write("sa/token", " \n");
  EXPECT_THAT(std::string(m.Load().status().message()), HasSubstr("sa/token: the token file is"));
}

// A kubeconfig with one cluster, user and context, whose inner fields are given.
std::string Small(const std::string& cluster, const std::string& user) {
  return absl::StrCat("current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n",
                      "clusters: [{name: c, cluster: {", cluster, "}}]\n",
                      "users: [{name: u, user: {", user, "}}]\n");
}

TEST(ConfigTest, NamesFileAndFieldOfEachMistake) {
  const std::string good = "server: https://s";
  const std::string exec = "command: p, apiVersion: client.authentication.k8s.io/v1";
  const struct {
    std::string text;
    const char* want;
  } cases[] = {
      {"", "is empty"},
      {"[]", "is no kubeconfig: not a map"},
      {"a: b: c", ":1: not valid YAML"},
      {"{", "not valid YAML"},
      {"a: 1\na: 2", ":2: the key \"a\" is given twice"},
      {"? [a]\n: b", "a key must be text"},
      {"kind: Pod", "kind: Pod is no Config"},
      {"kind: [a]", "kind: must be text"},
      {"clusters: []", "current-context: is not set"},
      {"current-context: x", "contexts: has no \"x\"; there are: none"},
      {"current-context: x\ncontexts: {}", "contexts: must be a list"},
      {"current-context: x\ncontexts: [1]", "contexts: each entry needs a name"},
      {"current-context: x\ncontexts: [{name: y, context: {}}]", "there are: y"},
      {"current-context: x\ncontexts: [{name: x}]", "contexts[\"x\"].context: must be a map"},
      {"current-context: x\ncontexts: [{name: x, context: {}}]",
       "contexts[\"x\"].context.cluster: is missing"},
      {"current-context: x\ncontexts: [{name: x, context: {cluster: c}}]",
       "clusters: has no \"c\""},
      {"current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
       "clusters: [{name: c, cluster: {server: https://s}}]",
       "users: has no \"u\""},
      {Small("", ""), "clusters[\"c\"].cluster.server: \"\" does not begin with https://"},
      {Small("server: [a]", ""), "cluster.server: must be text"},
      {Small("server: ftp://s", ""), "cluster.server: \"ftp://s\""},
      {Small(good + ", certificate-authority-data: '%%'", ""),
       "cluster.certificate-authority-data: is no base64"},
      {Small(good + ", certificate-authority-data: YWJj", ""),
       "cluster.certificate-authority-data: holds no PEM CERTIFICATE"},
      {Small(good + ", certificate-authority: no/such.pem", ""), "cluster.certificate-authority: "},
      {Small(good + ", insecure-skip-tls-verify: maybe", ""),
       "insecure-skip-tls-verify: \"maybe\" is neither true nor false"},
      {Small(good + ", insecure-skip-tls-verify: true, certificate-authority: a", ""),
       "insecure-skip-tls-verify: a certificate authority is given as well"},
      {Small(good + ", proxy-url: socks5://p", ""), "proxy-url: only http://"},
      {Small(good, "client-certificate: a"), "user.client-key: is missing"},
      {Small(good, "client-key-data: YWJj"), "user.client-certificate: is missing"},
      {Small(good, "as: root"), "users[\"u\"].user.as: impersonation is not supported"},
      {Small(good, "auth-provider: {name: gcp}"), "user.auth-provider: is not supported"},
      {Small(good, "exec: 1"), "user.exec: must be a map"},
      {Small(good, "exec: {apiVersion: x}"), "user.exec.command: is missing"},
      {Small(good, "exec: {command: p}"), "user.exec.apiVersion: \"\" is not known"},
      {Small(good, "exec: {command: p, apiVersion: client.authentication.k8s.io/v1alpha1}"),
       "v1alpha1\" is not known"},
      {Small(good, absl::StrCat("exec: {", exec, ", interactiveMode: Always}")),
       "interactiveMode: the plug-in wants a terminal"},
      {Small(good, absl::StrCat("exec: {", exec, ", args: a}")), "args: must be a list of text"},
      {Small(good, absl::StrCat("exec: {", exec, ", args: [[a]]}")),
       "args: must be a list of text"},
      {Small(good, absl::StrCat("exec: {", exec, ", env: {a: b}}")), "exec.env: must be a list"},
      {Small(good, absl::StrCat("exec: {", exec, ", env: [{name: a}]}")),
       "exec.env: each entry needs"},
      {Small(good, absl::StrCat("token: t, exec: {", exec, "}")), "user.exec: stands beside"},
  };
  Machine m;
  for (const auto& c : cases) {
    const std::string file = m.folder.Write("config", c.text);
    const auto config = m.Load({.kubeconfig = file});
    ASSERT_TRUE(absl::IsInvalidArgument(config.status())) << c.text;
    EXPECT_THAT(std::string(config.status().message()), AllOf(HasSubstr(file), HasSubstr(c.want)));
  }
}

TEST(ConfigTest, BoundsWhatAnAliasCanCost) {
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 9; ++i) {
    absl::StrAppend(&bomb, "a", i, ": &a", i, " [");
    for (int k = 0; k < 10; ++k) absl::StrAppend(&bomb, "*a", i - 1, ",");
    absl::StrAppend(&bomb, "]\n");
  }
  EXPECT_THAT(std::string(ReadKubeconfig("f", bomb, "").status().message()),
              HasSubstr("aliases expanded"));
  EXPECT_THAT(std::string(ReadKubeconfig("f", std::string(5 << 20, ' '), "").status().message()),
              HasSubstr("larger than"));
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  EXPECT_THAT(std::string(ReadKubeconfig("f", deep, "").status().message()), HasSubstr("deeper"));
  EXPECT_FALSE(ReadKubeconfig("f", "a: &a [*a]", "").ok());
}

TEST(TokenFileTest, IsRereadWithinAMinuteAndAfterARefusal) {
  Folder folder;
  base::FakeClock clock(absl::UnixEpoch());
  TokenFile file(folder.Write("token", "one\n"), &clock);
  EXPECT_EQ(*file.Get(), "one");
  folder.Write("token", "two");
  EXPECT_EQ(*file.Get(), "one");
  clock.Advance(absl::Minutes(1));
  EXPECT_EQ(*file.Get(), "two");
  folder.Write("token", "three");
  file.Forget();
  EXPECT_EQ(*file.Get(), "three");
  std::filesystem::remove(folder.path() + "/token");
  clock.Advance(absl::Minutes(1));
  EXPECT_EQ(*file.Get(), "three");  // until the server says no
}

// A plug-in that counts its runs and prints `credential` (with $RUN for the count).
std::string Plugin(Folder& folder, const std::string& credential) {
  return folder.Write("plugin",
                      absl::StrCat("#!/bin/sh\ncd \"$(dirname \"$0\")\"\n"
                                   "echo run >> runs\nRUN=$(wc -l < runs)\n"
                                   "echo \"$KUBERNETES_EXEC_INFO\" > info\n"
                                   "echo \"$1 $2 $MINE\" > arguments\ncat <<END\n",
                                   credential, "\nEND\n"),
                      /*executable=*/true);
}
int Runs(Folder& folder) {
  const std::string runs = folder.Read("runs");
  return static_cast<int>(std::count(runs.begin(), runs.end(), '\n'));
}

constexpr char kCredential[] =
    R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",
        "status":{"token":"t$RUN","expirationTimestamp":"2023-11-14T23:13:20Z"}})";  // in 1 h

TEST(ExecPluginTest, RunsWhenDueWithItsArgumentsAndEnvironment) {
  Machine m;
  Plugin(m.folder, kCredential);
  const std::string file = m.folder.Write(
      "config",
      Small(absl::StrCat("server: https://s, certificate-authority-data: ",
                         absl::Base64Escape(Pki().ca_pem)),
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, args: [a, 1], "
            "env: [{name: MINE, value: v}], provideClusterInfo: true, interactiveMode: Never}"));
  const auto config = m.Load({.kubeconfig = file});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(Runs(m.folder), 0);
  auto token = config->token();
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(*token, "t1");
  EXPECT_EQ(m.folder.Read("arguments"), "a 1 v\n");
  EXPECT_THAT(m.folder.Read("info"),
              AllOf(HasSubstr(R"("interactive":false)"), HasSubstr(R"("server":"https://s")"),
                    HasSubstr(absl::Base64Escape(Pki().ca_pem))));
  EXPECT_TRUE(config->key_pair()->key_pem.empty());
  m.clock.Advance(absl::Minutes(59));
  EXPECT_EQ(*config->token(), "t1");
  m.clock.Advance(absl::Minutes(1));
  EXPECT_EQ(*config->token(), "t2");
  config->refused();
  EXPECT_EQ(*config->token(), "t3");
  EXPECT_EQ(Runs(m.folder), 3);
}

TEST(ExecPluginTest, GivesClientCertificates) {
  Folder folder;
  base::FakeClock clock(absl::UnixEpoch());
  const std::string output = absl::StrCat(
      R"({"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential",)",
      R"("status":{"clientCertificateData":")",
      absl::StrReplaceAll(Pki().client.certificate_pem, {{"\n", "\\n"}}), R"(","clientKeyData":")",
      absl::StrReplaceAll(Pki().client.key_pem, {{"\n", "\\n"}}), R"("}})");
  folder.Write("output", output);
  ExecSpec spec{.field = "f",
                .api_version = "client.authentication.k8s.io/v1beta1",
                .command = "cat",
                .args = {folder.path() + "/output"}};
  ExecPlugin plugin(spec, "{}", &clock);
  const auto credential = plugin.Get();
  ASSERT_TRUE(credential.ok()) << credential.status();
  EXPECT_EQ(credential->pair.certificate_pem, Pki().client.certificate_pem);
  EXPECT_EQ(credential->pair.key_pem, Pki().client.key_pem);
  EXPECT_EQ(credential->expires, absl::InfiniteFuture());
}

TEST(ExecPluginTest, SaysWhatIsWrongWithAPlugin) {
  Folder folder;
  base::FakeClock clock(absl::UnixEpoch());
  ExecSpec spec{.field = "users[\"u\"].user.exec",
                .api_version = "client.authentication.k8s.io/v1",
                .install_hint = "get it from the shop"};
  const auto message = [&](absl::Duration timeout = absl::Seconds(30)) {
    ExecPlugin plugin(spec, "{}", &clock, timeout);
    return std::string(plugin.Get().status().message());
  };
  spec.command = "no-such-plugin-anywhere";
  EXPECT_THAT(message(), AllOf(HasSubstr("users[\"u\"].user.exec: no-such-plugin-anywhere: cannot "
                                         "run: No such file"),
                               HasSubstr("get it from the shop")));
  spec.command = folder.Write("fails", "#!/bin/sh\necho login first >&2\nexit 3\n", true);
  EXPECT_THAT(message(), HasSubstr("ended with exit code 3: login first"));
  spec.command = folder.Write("plain", "#!/bin/sh\nexit 0\n");
  EXPECT_THAT(message(), HasSubstr("cannot run: Permission denied"));
  spec.command = folder.Write("hangs", "#!/bin/sh\nsleep 600 & wait\n", true);
  EXPECT_THAT(message(absl::Milliseconds(200)), HasSubstr("was not done after 200ms"));
  spec.command = folder.Write("floods", "#!/bin/sh\nexec cat /dev/zero\n", true);
  EXPECT_THAT(message(), HasSubstr("bytes of output"));
}

TEST(ExecPluginTest, AFailureIsNotRepeatedForEachCall) {
  Folder folder;
  base::FakeClock clock(absl::UnixEpoch());
  ExecSpec spec{.command = Plugin(folder, "nonsense")};
  ExecPlugin plugin(spec, "{}", &clock);
  EXPECT_FALSE(plugin.Get().ok());
  EXPECT_FALSE(plugin.Get().ok());
  EXPECT_EQ(Runs(folder), 1);
  clock.Advance(absl::Seconds(6));
  EXPECT_FALSE(plugin.Get().ok());
  EXPECT_EQ(Runs(folder), 2);
}

TEST(ExecPluginTest, NamesEachMistakeOfItsOutput) {
  const ExecSpec spec{.field = "f", .api_version = "v", .command = "p"};
  const auto whole = [](const std::string& status) {
    return absl::StrCat(R"({"kind":"ExecCredential","apiVersion":"v","status":)", status, "}");
  };
  const struct {
    std::string output;
    const char* want;
  } cases[] = {
      {"", "not a JSON object"},
      {"[]", "not a JSON object"},
      {"{}", "kind is no ExecCredential"},
      {R"({"kind":"ExecCredential","apiVersion":"w"})", "apiVersion is \"w\""},
      {R"({"kind":"ExecCredential","apiVersion":"v"})", "has no status"},
      {whole("{}"), "neither token nor client certificate"},
      {whole(R"({"clientKeyData":"k"})"), "only one of"},
      {whole(R"({"token":"t","expirationTimestamp":"soon"})"), "expirationTimestamp \"soon\""},
  };
  for (const auto& c : cases) {
    const absl::Status status = ParseExecCredential(spec, c.output).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << c.output;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("f: p: "), HasSubstr(c.want)));
  }
  EXPECT_TRUE(ParseExecCredential(spec, whole(R"({"token":"t"})")).ok());
}

TEST(SubprocessTest, ReturnsCodeAndBothOutputs) {
  const auto result = RunProcess({"sh", "-c", "cat; echo out; echo err $X >&2; kill -9 $$"},
                                 {{"X", "x"}}, absl::Seconds(30));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 137);
  EXPECT_EQ(result->out, "out\n");
  EXPECT_EQ(result->err, "err x\n");
}

TEST(SubprocessTest, DoesNotWaitForWhatAProgramLeavesBehind) {
  const absl::Time start = absl::Now();
  const auto result = RunProcess({"sh", "-c", "sleep 20 & echo done"}, {}, absl::Seconds(15));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->out, "done\n");
  EXPECT_LT(absl::Now() - start, absl::Seconds(14));
}

}  // namespace
}  // namespace kube

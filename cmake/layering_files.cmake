# Which files may include which throwing or heavy library (see check_layering.cmake): few and named, so
# that each library can be changed in one place. Tests are free.
set(files_grpc trainer/ps/ trainer/train/task_client.h trainer/train/task_client.cc trainer/train/task_server.cc)
set(files_yaml operator/cli/yaml_reader.cc operator/kube/yaml_strings.cc trainer/model/model_config.cc trainer/model/yaml_map.h trainer/model/yaml_map.cc)
set(files_dnnl trainer/cpu/)
set(files_httplib operator/cli/progress_poller.cc operator/runtime/http_endpoint.cc trainer/report/monitor.cc trainer/data/download.cc)
set(files_gloo trainer/train/allreduce.cc)
set(files_leveldb trainer/checkpoint/bundle_table_writer.cc)
set(files_spdlog base/log.cc)
set(files_cli11 operator/cli/main.cc operator/cli/complete.h operator/cli/run_flags.h operator/cli/cluster/commands.h trainer/train/options.cc trainer/data/data_main.cc)
set(files_openssl base/task_certificates.cc operator/kube/tls.cc operator/page/token_digest.cc trainer/data/sha256.cc)
set(files_zlib trainer/data/byte_source.cc)
set(files_cpprest operator/kube/transport_cpprest.cc operator/kube/cpprest_sink.h)
set(files_cuda trainer/cuda/plugin/)

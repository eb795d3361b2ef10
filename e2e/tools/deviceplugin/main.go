// Command deviceplugin tells this node's kubelet of devices that are none, as a GPU vendor's plugin tells of GPUs: each
// container that asks for N gets N different ones, their numbers in CUDA_VISIBLE_DEVICES and /dev/null in their place.
//
//	deviceplugin RESOURCE COUNT
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const endpoint = "trainyard.sock"

type server struct {
	plugin.UnimplementedDevicePluginServer
	count int
}

func (s *server) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

// ListAndWatch tells the devices once; they never change.
func (s *server) ListAndWatch(_ *plugin.Empty, stream plugin.DevicePlugin_ListAndWatchServer) error {
	devices := []*plugin.Device{}
	for i := 0; i < s.count; i++ {
		devices = append(devices, &plugin.Device{ID: strconv.Itoa(i), Health: plugin.Healthy})
	}
	if err := stream.Send(&plugin.ListAndWatchResponse{Devices: devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (s *server) Allocate(_ context.Context, request *plugin.AllocateRequest) (*plugin.AllocateResponse, error) {
	response := &plugin.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		given := &plugin.ContainerAllocateResponse{
			Envs: map[string]string{"CUDA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")},
		}
		for _, id := range container.DevicesIds {
			given.Devices = append(given.Devices, &plugin.DeviceSpec{
				HostPath: "/dev/null", ContainerPath: "/dev/nvidia" + id, Permissions: "rw"})
		}
		response.ContainerResponses = append(response.ContainerResponses, given)
	}
	return response, nil
}

func run(resource string, count int) error {
	path := plugin.DevicePluginPath + endpoint
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	serving := grpc.NewServer()
	plugin.RegisterDevicePluginServer(serving, &server{count: count})
	ended := make(chan error, 1)
	go func() { ended <- serving.Serve(listener) }()

	connection, err := grpc.NewClient("unix://"+plugin.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	limited, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	_, err = plugin.NewRegistrationClient(connection).Register(limited, &plugin.RegisterRequest{
		Version: plugin.Version, Endpoint: endpoint, ResourceName: resource}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("kubelet did not take %s: %w", resource, err)
	}
	log.Printf("kubelet knows %d of %s", count, resource)
	return <-ended
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: deviceplugin RESOURCE COUNT")
	}
	count, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(run(os.Args[1], count))
}

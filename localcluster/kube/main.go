// Command kube is everything of Kubernetes that a node and its control plane run, linked once:
// etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy and kubectl.
// Like busybox it looks at the name that it was called by. One binary instead of seven is built in
// a third of the time, because the packages that they share are most of what there is to compile.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	// Without these three the components start, but have no JSON logs and no client metrics.
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

// commands holds constructors, not commands: a component registers flags globally when it is made,
// so only the one that was asked for may be made.
var commands = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": manager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kube-proxy":              proxy.NewProxyCommand,
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
}

func main() {
	called := filepath.Base(os.Args[0])
	if called == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	command, known := commands[called]
	if !known {
		fmt.Fprintf(os.Stderr, "kube: call it through a link named like a component, not %q\n", called)
		os.Exit(2)
	}
	os.Exit(cli.Run(command()))
}

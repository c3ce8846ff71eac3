//go:build tools

// Package kubernetes pins the API server and etcd that the tests run.
package kubernetes

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
)

// Package e2e runs forewarmd against a real control plane on one machine, without nodes and containers: etcd, the
// Kubernetes API server, controller manager (with the real HPA controller) and scheduler, kwok (which plays the kubelets),
// the KEDA operator and metrics adapter, and Debian's Prometheus scraping an emulator of ours.
//
// Everything but this comment has the build tag e2e and needs Linux: `make e2e`, or one case alone with
//
//	go test -tags e2e -count=1 -run TestName ./scaler/e2e
//
// # Parts
//
//	build_test.go     components as pinned Go tools of tools/ and tools/kueue/, cached by their go.mod and go.sum
//	process_test.go   processes: started on free loopback ports, stopped in order, by process id, within a bound
//	pki_test.go       certificates of one run
//	client_test.go    the Kubernetes API over plain REST: get, server-side apply, merge patch, delete
//	wait_test.go      waiting for a condition; a deadline that passes prints the objects and logs concerned
//	cluster_test.go   the control plane with kwok, one for all cases of a run, started by the first that needs it
//	keda_test.go      KEDA's CRDs, operator, metrics adapter and APIService
//	emulator_test.go  model servers and a gateway (vLLM and llm-d metrics) and kube-state-metrics, as one exporter
//	prometheus_test.go, forewarmd_test.go  the two real processes that belong to a case
//
// The finished component binaries (0.6 GB) lie in FOREWARM_E2E_CACHE, by default forewarm-e2e in the user's cache folder;
// FOREWARM_E2E_LOGS keeps the logs of a run in a folder of your own instead of a temporary one.
//
// # What is shortened
//
// The HPA controller looks every 2 s instead of every 15 s and has a downscale stabilisation of 10 s where a ScaledObject
// states none. kwok's stages of pods take their start and stop delays from annotations. Every other default is kept.
package e2e

package evidence

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// seeds are the inputs of the scenarios.
func seeds(f *testing.F, command string) {
	files, err := filepath.Glob("testdata/scenarios/*")
	if err != nil || len(files) == 0 {
		f.Fatal("no scenarios", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for block := range strings.SplitSeq(string(text), "\n----\n") {
			if _, input, found := strings.Cut(block, "\n"+command); found {
				_, input, _ = strings.Cut(input, "\n")
				f.Add([]byte(input))
			}
		}
	}
}

// FuzzReadLog: any bytes are read without an error, in any number of pieces, and every start that follows is whole.
func FuzzReadLog(f *testing.F) {
	seeds(f, "log ")
	f.Fuzz(func(t *testing.T, data []byte) {
		logs, err := ReadLog(bytes.NewReader(data), "fuzz.log")
		if err != nil {
			t.Fatal(err)
		}
		starts, _ := Starts(&Cluster{}, logs, Options{At: time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)})
		for _, s := range starts {
			checkStart(t, s)
		}
	})
}

// FuzzReadCluster: any bytes are either refused with the input's name or give whole starts, together with any log.
func FuzzReadCluster(f *testing.F) {
	seeds(f, "kube")
	log := "INFO 03-02 09:15:10 [api_server.py:1839] vLLM API server version 0.11.0\n" +
		"INFO 03-02 09:15:24 [default_loader.py:267] Loading weights took 3.50 seconds\nINFO 03-02 09:15:40 Application startup complete.\n"
	f.Fuzz(func(t *testing.T, data []byte) {
		var c Cluster
		if err := c.ReadJSON(bytes.NewReader(data), "fuzz.json"); err != nil && !strings.Contains(err.Error(), "fuzz.json") {
			t.Fatalf("error without the file's name: %v", err)
		}
		logs, err := ReadLog(strings.NewReader(log), "fuzz.log")
		if err != nil {
			t.Fatal(err)
		}
		starts, _ := Starts(&c, logs, Options{})
		for _, s := range starts {
			checkStart(t, s)
		}
	})
}

// FuzzReadDescribe: the same for descriptions.
func FuzzReadDescribe(f *testing.F) {
	seeds(f, "describe")
	f.Fuzz(func(t *testing.T, data []byte) {
		var c Cluster
		at := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
		if err := c.ReadDescribe(bytes.NewReader(data), "fuzz.txt", at); err != nil && !strings.Contains(err.Error(), "fuzz.txt") {
			t.Fatalf("error without the file's name: %v", err)
		}
		starts, _ := Starts(&c, nil, Options{At: at})
		for _, s := range starts {
			checkStart(t, s)
		}
	})
}

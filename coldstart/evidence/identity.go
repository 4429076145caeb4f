package evidence

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// modelFlags are the flags by which engines take their model, the name it is served under first.
var modelFlags = []string{"--served-model-name", "--model", "--model-path", "--model-id", "--hf-repo", "-hf", "-m"}

// modelVariables are the environment variables that engines and charts take it from.
var modelVariables = []string{"MODEL_ID", "MODEL_NAME", "HF_MODEL_ID", "MODEL"}

// modelLabels are labels that name it, where nothing closer does.
var modelLabels = []string{"llm-d.ai/model", "model", "app.kubernetes.io/name", "app"}

// words are the command line of a container, a shell's script taken apart at its spaces.
func (c container) words() []string {
	var out []string
	for _, w := range append(append([]string{}, c.Command...), c.Args...) {
		out = append(out, strings.Fields(w)...)
	}
	return out
}

// model is the model that a container's command line or environment names, "" when neither does.
func (c container) model() string {
	words := c.words()
	for _, flag := range modelFlags {
		for i, w := range words {
			if name, value, set := strings.Cut(w, "="); set && name == flag {
				return value
			}
			if w == flag && i+1 < len(words) {
				return words[i+1]
			}
		}
	}
	for i, w := range words {
		if w == "serve" && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			return words[i+1]
		}
	}
	for _, name := range modelVariables {
		for _, e := range c.Env {
			if e.Name == name && e.Value != "" {
				return e.Value
			}
		}
	}
	return ""
}

// gpus is how many GPUs, or parts of one, a container asks for.
func (c container) gpus() int {
	most := 0
	for _, list := range []map[string]any{c.Resources.Limits, c.Resources.Requests} {
		sum := 0
		for name, amount := range list {
			if plain := strings.TrimSuffix(name, ".shared"); plain != "nvidia.com/gpu" && plain != "amd.com/gpu" &&
				!strings.HasPrefix(plain, "nvidia.com/mig-") {
				continue
			}
			if n, err := strconv.Atoi(fmt.Sprint(amount)); err == nil && n > 0 && n <= 1024 {
				sum += n
			}
		}
		most = max(most, sum)
	}
	return most
}

// engineName is the engine by the container's image or command, "" when neither tells.
func (c container) engineName() string {
	text := c.Image + " " + strings.Join(c.words(), " ")
	for _, e := range [][2]string{{"vllm", vllm}, {"sglang", sglang}, {"text-generation-inference", tgi},
		{"text-generation-launcher", tgi}, {"llama.cpp", llama}, {"llama-server", llama}} {
		if strings.Contains(text, e[0]) {
			return e[1]
		}
	}
	return ""
}

// tagVersion is a version at the beginning of an image's tag; what comes after it (a CUDA version, a variant, a build) is
// not part of how engines call themselves in their logs.
var tagVersion = regexp.MustCompile(`^v?(\d+\.\d+(?:\.\d+)*(?:\.?(?:rc|post|dev|a|b)\d+)?)(?:$|[-_+.])`)

// version is the one that the tag of the image begins with, "" for a tag that names none, such as latest or a commit.
func (c container) version() string {
	image, _, _ := strings.Cut(c.Image, "@")
	_, tag, _ := strings.Cut(path.Base(image), ":")
	if m := tagVersion.FindStringSubmatch(tag); m != nil {
		return m[1]
	}
	return ""
}

// modelOf names the model of a start: by its command line, else its log, else its labels, else its pod.
func (s *podStart) modelOf(a *attempt) string {
	name := s.main.model()
	if a != nil {
		name = cmp.Or(name, a.model)
	}
	for _, l := range modelLabels {
		name = cmp.Or(name, s.pod.Metadata.Labels[l])
	}
	return strings.ToValidUTF8(cmp.Or(name, s.pod.Metadata.Name), "?")
}

// engineOf names engine and version, the log's first: an image's tag can be anything.
func (s *podStart) engineOf(a *attempt) string {
	engine, version := s.main.engineName(), s.main.version()
	if a != nil {
		engine, version = cmp.Or(a.engine, engine), cmp.Or(a.version, version)
	}
	if engine == "" {
		return ""
	}
	return strings.ToValidUTF8(strings.TrimSpace(engine+" "+version), "?")
}

// shapeOf is the replica's shape as the planner names it, "4x1/NVIDIA-H100-80GB-HBM3"; "" without GPUs.
func (s *podStart) shapeOf() string {
	n := s.main.gpus()
	if n == 0 {
		return ""
	}
	shape := fmt.Sprintf("%dx1", n)
	if s.node != nil {
		if product := s.node.Metadata.Labels["nvidia.com/gpu.product"]; product != "" {
			shape += "/" + product
		}
	}
	return strings.ToValidUTF8(shape, "?")
}

// ImageEngine names the engine and its version by an image, "" when it names none that is known.
func ImageEngine(image string) string {
	c := container{Image: image}
	if c.engineName() == "" {
		return ""
	}
	return strings.ToValidUTF8(strings.TrimSpace(c.engineName()+" "+c.version()), "?")
}

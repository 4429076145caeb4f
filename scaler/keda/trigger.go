package keda

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The keys of a trigger's metadata that forewarm reads.
const (
	keyModel       = "model"
	keyReplicasMin = "minReplicas"
	keyPlanAgeMax  = "maxPlanAge"
)

// ownKeys are all keys that forewarm reads.
var ownKeys = []string{keyModel, keyReplicasMin, keyPlanAgeMax}

// kedaKeys are KEDA's own: it forwards the whole metadata (parseExternalScalerMetadata, pkg/scalers/external_scaler.go).
// The first three are read from there; the credentials belong into a TriggerAuthentication and tlsCertFile was removed
// in v2.17, but KEDA forwards them when somebody writes them here.
var kedaKeys = []string{
	"scalerAddress", "enableTLS", "unsafeSsl", "caCert", "tlsClientCert", "tlsClientKey", "tlsCertFile",
}

// envSuffix marks a key whose value KEDA took from the workload's environment. It forwards key and suffix with the
// resolved value, and drops the key when the variable is missing.
const envSuffix = "FromEnv"

const (
	// replicasMinMax is the planner's own limit on a count.
	replicasMinMax = 1_000_000
	// namesShown and charsShown bound how much of a caller's input or of a long list goes into one error.
	namesShown = 10
	charsShown = 64
)

// trigger is what one ScaledObject asks for.
type trigger struct {
	model string
	// replicasMin raises the answer; 0 raises nothing.
	replicasMin int
	// planAgeMax shortens the server's own limit; 0 leaves it.
	planAgeMax time.Duration
}

// readTrigger reads a trigger's metadata. The trigger holds what could be read even when problems are found, so that a
// call that needs only the model can go on; model is empty when it is missing. There is one problem for each bad key or
// value, sorted, with what is allowed.
func readTrigger(metadata map[string]string) (t trigger, problems []string) {
	seen := 0
	for key, value := range metadata {
		name, known := ownKey(key)
		if !known {
			if p := strayKey(key, value); p != "" {
				problems = append(problems, p)
			}
			continue
		}
		seen++
		if p := t.set(name, key, value); p != "" {
			problems = append(problems, p)
		}
	}
	// More keys than can differ mean that one is there twice, with and without FromEnv: which one counts is not ours to
	// guess. The search is kept off the usual path.
	if seen > 1 {
		problems = append(problems, doubledKeys(metadata)...)
	}
	if t.model == "" {
		problems = append(problems, missingModel(metadata)...)
	}
	slices.Sort(problems)
	return t, problems
}

// ownKey returns the key without KEDA's FromEnv and whether forewarm reads it.
func ownKey(key string) (name string, known bool) {
	if slices.Contains(ownKeys, key) {
		return key, true
	}
	name = strings.TrimSuffix(key, envSuffix)
	return name, slices.Contains(ownKeys, name)
}

// set takes over one value and returns the problem with it, empty for none.
func (t *trigger) set(name, key, value string) string {
	switch name {
	case keyModel:
		t.model = value
	case keyReplicasMin:
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n > replicasMinMax {
			return fmt.Sprintf("%s is %s: an integer of 0 to %d is allowed", key, quote(value), replicasMinMax)
		}
		t.replicasMin = n
	case keyPlanAgeMax:
		d, err := time.ParseDuration(value)
		if err != nil || d < planAgeMin || d > planAgeMax {
			return fmt.Sprintf("%s is %s: a duration of %s to %s is allowed, such as 90s or 5m",
				key, quote(value), shortDuration(planAgeMin), shortDuration(planAgeMax))
		}
		t.planAgeMax = d
	}
	return ""
}

// strayKey returns the problem with a key that forewarm does not read, empty when it is KEDA's.
func strayKey(key, value string) string {
	if slices.Contains(kedaKeys, key) || slices.Contains(kedaKeys, strings.TrimSuffix(key, envSuffix)) {
		return ""
	}
	p := fmt.Sprintf("unknown key %s (value %s)", quote(key), quote(value))
	if near := nearest(key, slices.Concat(ownKeys, kedaKeys)); near != "" {
		p += fmt.Sprintf(", did you mean %q?", near)
	}
	return p
}

func doubledKeys(metadata map[string]string) []string {
	var problems []string
	for _, key := range ownKeys {
		plain, here := metadata[key]
		env, there := metadata[key+envSuffix]
		if here && there {
			problems = append(problems, fmt.Sprintf("%s is %s and %s is %s: one of them is allowed",
				key, quote(plain), key+envSuffix, quote(env)))
		}
	}
	return problems
}

func missingModel(metadata map[string]string) []string {
	for _, key := range []string{keyModel, keyModel + envSuffix} {
		if _, there := metadata[key]; there {
			return []string{fmt.Sprintf("%s is empty: the name of a model is needed", key)}
		}
	}
	return []string{fmt.Sprintf("%s is missing: the name of a model is needed (%s counts only when KEDA can resolve it)",
		keyModel, keyModel+envSuffix)}
}

// invalidTrigger is the sentence about everything that is wrong with a trigger's metadata.
func invalidTrigger(problems []string) string {
	more := ""
	if len(problems) > namesShown {
		more = fmt.Sprintf("; and %d more", len(problems)-namesShown)
		problems = problems[:namesShown]
	}
	return fmt.Sprintf("trigger metadata: %s%s; allowed keys are %s and KEDA's own",
		strings.Join(problems, "; "), more, strings.Join(ownKeys, ", "))
}

// nearest returns the candidate with the fewest edits from name, upper and lower case being equal, or "" when none is
// within two edits or a third of its length, and half of it. Two letters swapped are two edits. The first of equals wins.
func nearest(name string, candidates []string) string {
	best, bestEdits := "", 0
	if len(name) > charsShown { // nobody mistypes that much, and the comparison is quadratic
		return ""
	}
	for _, c := range candidates {
		edits := editDistance(strings.ToLower(name), strings.ToLower(c))
		if edits <= max(2, len(c)/3) && 2*edits <= len(c) && (best == "" || edits < bestEdits) {
			best, bestEdits = c, edits
		}
	}
	return best
}

// editDistance is the number of bytes to insert, delete or replace to turn a into b (Levenshtein), in O(len(a)·len(b)).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// quote prints a caller's text on one line, shortened when it is long.
func quote(s string) string {
	if len(s) <= charsShown {
		return strconv.Quote(s)
	}
	return strconv.Quote(s[:charsShown]) + "…"
}

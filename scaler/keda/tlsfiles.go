package keda

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// tlsFiles serves the certificate from its files and reads them again when one has changed, which is how a mounted
// Secret is rotated. Files that do not load, such as a half-written pair, leave the previous ones in force.
type tlsFiles struct {
	names TLS
	log   *slog.Logger

	mu      sync.Mutex
	current *tls.Config
	stamps  [3]fileStamp
}

// fileStamp tells one version of a file from the next. The zero stamp is a file that is not used or not there.
type fileStamp struct {
	modified int64 // Unix nanoseconds
	size     int64
}

// newTLSFiles loads the files; it reports every one that is not usable.
func newTLSFiles(names TLS, log *slog.Logger) (*tlsFiles, error) {
	f := &tlsFiles{names: names, log: log}
	f.stamps = f.look() // before loading: a change in between is then seen at the next handshake
	var err error
	f.current, err = loadTLS(names)
	return f, err
}

// config is the configuration for the listener; it looks at the files at each handshake. Handshakes are rare: KEDA
// keeps one connection.
func (f *tlsFiles) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return f.newest(), nil
		},
	}
}

func (f *tlsFiles) newest() *tls.Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	stamps := f.look()
	if stamps == f.stamps {
		return f.current
	}
	// Noted also when loading fails: the next attempt, and the next line in the log, come with the next change.
	f.stamps = stamps
	next, err := loadTLS(f.names)
	if err != nil {
		f.log.Error("TLS files changed and do not load; the previous ones stay in force", slog.Any("error", err))
		return f.current
	}
	f.log.Info("TLS files changed and were loaded", slog.String("cert_file", f.names.CertFile))
	f.current = next
	return next
}

func (f *tlsFiles) look() (stamps [3]fileStamp) {
	for i, name := range []string{f.names.CertFile, f.names.KeyFile, f.names.ClientCAFile} {
		if name == "" {
			continue
		}
		if info, err := os.Stat(name); err == nil {
			stamps[i] = fileStamp{modified: info.ModTime().UnixNano(), size: info.Size()}
		}
	}
	return stamps
}

func loadTLS(names TLS) (*tls.Config, error) {
	var errs []error
	cert, err := tls.LoadX509KeyPair(names.CertFile, names.KeyFile)
	if err != nil {
		errs = append(errs, fmt.Errorf("tls.cert_file %s with tls.key_file %s: %w", names.CertFile, names.KeyFile, err))
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	if names.ClientCAFile != "" {
		pem, err := os.ReadFile(names.ClientCAFile)
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("tls.client_ca_file: %w", err))
		case !c.ClientCAs.AppendCertsFromPEM(pem):
			errs = append(errs, fmt.Errorf("tls.client_ca_file %s: no PEM certificate in it", names.ClientCAFile))
		}
	}
	return c, errors.Join(errs...)
}

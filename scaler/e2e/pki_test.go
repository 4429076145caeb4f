//go:build e2e

package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// newAuthority makes a certificate authority.
func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificate(pkix.Name{CommonName: name})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert, key, encodePEM("CERTIFICATE", der)}, err
}

func certificate(subject pkix.Name) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(fmt.Sprintf("e2e: %v", err))
	}
	return &x509.Certificate{SerialNumber: serial, Subject: subject,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
}

// issue writes NAME.crt and NAME.key into folder, for server and client use. Hosts are DNS names or IP addresses.
func (a *authority) issue(folder, name string, subject pkix.Name, hosts ...string) error {
	template := certificate(subject)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	return errors.Join(writeFile(folder, name+".crt", encodePEM("CERTIFICATE", der)), writeKey(folder, name+".key", key))
}

func writeKey(folder, name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writeFile(folder, name, encodePEM("EC PRIVATE KEY", der))
}

func encodePEM(kind string, der []byte) []byte {
	var out bytes.Buffer
	_ = pem.Encode(&out, &pem.Block{Type: kind, Bytes: der}) // a Buffer does not fail
	return out.Bytes()
}

func writeFile(folder, name string, data []byte) error {
	return os.WriteFile(filepath.Join(folder, name), data, 0o600)
}

// pki is the certificates of one control plane; files lie in folder.
type pki struct {
	folder string
	ca     *authority
}

// newPKI makes the authority of the cluster, the one of the front proxy that the API server speaks to KEDA's adapter
// through, their certificates, and the key of service account tokens.
func newPKI(folder string) (*pki, error) {
	keda := filepath.Join(folder, "keda")
	if err := os.MkdirAll(keda, 0o700); err != nil {
		return nil, err
	}
	ca, err := newAuthority("e2e-ca")
	if err != nil {
		return nil, err
	}
	front, err := newAuthority("e2e-front-proxy-ca")
	if err != nil {
		return nil, err
	}
	accounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(accounts.Public())
	if err != nil {
		return nil, err
	}
	return &pki{folder, ca}, errors.Join(
		writeFile(folder, "ca.crt", ca.pem), writeFile(keda, "ca.crt", ca.pem), writeFile(folder, "front-proxy-ca.crt", front.pem),
		writeKey(folder, "sa.key", accounts), writeFile(folder, "sa.pub", encodePEM("PUBLIC KEY", public)),
		ca.issue(folder, "apiserver", pkix.Name{CommonName: "kube-apiserver"}, "localhost", "kubernetes",
			"kubernetes.default", "kubernetes.default.svc", "127.0.0.1", "10.0.0.1"),
		ca.issue(folder, "admin", pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}),
		front.issue(folder, "front-proxy", pkix.Name{CommonName: frontProxyName}),
		ca.issue(keda, "tls", pkix.Name{CommonName: "keda"}, "keda-operator.keda.svc", kedaAuthority,
			"keda-metrics-apiserver.keda.svc", "localhost", "127.0.0.1"),
	)
}

const (
	frontProxyName = "front-proxy-client"
	kedaAuthority  = "keda-operator.keda.svc.cluster.local"
)

func (p *pki) file(name string) string { return filepath.Join(p.folder, name) }

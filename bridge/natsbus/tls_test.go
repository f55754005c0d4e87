package natsbus

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority makes an authority, and a certificate of it for this machine, as
// files ca.pem, cert.pem and key.pem.
func authority(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	make := func(template, parent *x509.Certificate, signer *ecdsa.PrivateKey, name string) *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(err)
		if signer == nil {
			signer = key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		must(err)
		must(os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
		return key
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	caKey := make(ca, ca, nil, "ca.pem")
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	key, err := x509.MarshalPKCS8PrivateKey(make(leaf, ca, caKey, "cert.pem"))
	must(err)
	must(os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
	return dir
}

func TestServerAndPlatformKnowEachOtherByTheirCertificates(t *testing.T) {
	ours, others := authority(t), authority(t)
	server := newBroker(t)
	cert, err := tls.LoadX509KeyPair(filepath.Join(ours, "cert.pem"), filepath.Join(ours, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(ours, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	server.opt.TLS, server.opt.TLSVerify = true, true
	server.opt.TLSTimeout = patience.Seconds()
	server.opt.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	server.start()

	opt := server.options(t)
	opt.CA, opt.CertFile, opt.KeyFile = filepath.Join(ours, "ca.pem"), filepath.Join(ours, "cert.pem"), filepath.Join(ours, "key.pem")
	b := open(t, opt)
	publish(t, b, event("a", "one", 1))
	mustClose(t, b)
	if b.Counters().Delivered != 1 {
		t.Errorf("counters %+v", b.Counters())
	}

	wrong := server.options(t)
	wrong.CA, wrong.CertFile, wrong.KeyFile = filepath.Join(others, "ca.pem"), opt.CertFile, opt.KeyFile
	wrong.CloseTimeout = time.Millisecond
	b = open(t, wrong)
	eventually(t, "the state says why", func() bool {
		err := b.State().Err
		return err != nil && strings.Contains(err.Error(), "certificate")
	})
}

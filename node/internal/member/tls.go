package member

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"math/big"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/replica"
)

// derive returns 32 bytes that only holders of the token know.
func derive(token cluster.Token, use string) ([]byte, error) {
	return hkdf.Key(sha256.New, token.Secret[:], token.Cluster[:], use, 32)
}

// httpKey is what nodes of a cluster show each other over HTTP.
func httpKey(token cluster.Token) (string, error) {
	key, err := derive(token, "pentad http")
	return hex.EncodeToString(key), err
}

// certificate returns what a node shows to others and how it knows them: everyone who has the token
// can be the authority, so there is nothing to hand out, and each start makes a new certificate.
func certificate(token cluster.Token, node cluster.NodeID) (*tls.Config, error) {
	seed, err := derive(token, "pentad raft authority")
	if err != nil {
		return nil, err
	}
	authority := ed25519.NewKeyFromSeed(seed)
	root := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true,
		Subject:               pkix.Name{CommonName: "pentad cluster " + token.Cluster.String()},
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)}
	rootBytes, err := x509.CreateCertificate(rand.Reader, root, root, authority.Public(), authority)
	if err != nil {
		return nil, err
	}
	if root, err = x509.ParseCertificate(rootBytes); err != nil {
		return nil, err
	}
	public, own, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: root.NotBefore,
		NotAfter: root.NotAfter, DNSNames: []string{replica.TLSName(uint64(node))},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{
			x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	leafBytes, err := x509.CreateCertificate(rand.Reader, leaf, root, public, authority)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	return &tls.Config{RootCAs: pool, ClientCAs: pool, Certificates: []tls.Certificate{
		{Certificate: [][]byte{leafBytes}, PrivateKey: own}}}, nil
}

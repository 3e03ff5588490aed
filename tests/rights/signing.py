"""Sign pictures with C2PA's own library, by a certificate that is made here."""

import datetime
import functools
import io
from typing import Any

import c2pa
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_BEGIN = datetime.datetime(2026, 1, 1)
_CREATED = {
    "action": "c2pa.created",
    "digitalSourceType": "http://cv.iptc.org/newscodes/digitalsourcetype/digitalCapture",
}


def _certificate(name: str, key: ec.EllipticCurvePrivateKey, *, is_authority: bool) -> x509.CertificateBuilder:
    def named(common: str) -> x509.Name:
        return x509.Name(
            [x509.NameAttribute(kind, common) for kind in (NameOID.ORGANIZATION_NAME, NameOID.COMMON_NAME)]
        )

    usage = {
        f"key_{use}" if use in ("encipherment", "agreement", "cert_sign") else use: use in allowed
        for allowed in [("cert_sign", "crl_sign") if is_authority else ("digital_signature",)]
        for use in (
            *("digital_signature", "content_commitment", "encipherment", "data_encipherment", "agreement"),
            *("cert_sign", "crl_sign", "encipher_only", "decipher_only"),
        )
    }
    return (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named("authority"))
        .public_key(key.public_key())
        .serial_number(1 + is_authority)
        .not_valid_before(_BEGIN)
        .not_valid_after(_BEGIN + datetime.timedelta(days=9999))
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


@functools.cache
def _signer() -> c2pa.Signer:
    authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    leaf = _certificate("signer", key, is_authority=False)
    leaf = leaf.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION]), critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    leaf = leaf.add_extension(issuer, critical=False)
    certificates = (leaf, _certificate("authority", authority, is_authority=True))
    chain = b"".join(
        certificate.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        for certificate in certificates
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return c2pa.Signer.from_info(c2pa.C2paSignerInfo(b"es256", chain, private, None))


def signed(file: bytes, media_type: str, entries: dict[str, Any], label: str = "cawg.training-mining") -> bytes:
    """The file with a manifest that has an assertion on training and data mining."""
    assertions = [
        {"label": "c2pa.actions.v2", "data": {"actions": [_CREATED]}},
        {"label": label, "data": {"entries": entries}},
    ]
    made = io.BytesIO()
    builder = c2pa.Builder({"claim_generator_info": [{"name": "tests", "version": "1"}], "assertions": assertions})
    builder.sign(_signer(), media_type, io.BytesIO(file), made)
    return made.getvalue()

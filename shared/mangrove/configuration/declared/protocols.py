"""Settings of other protocols."""

from __future__ import annotations

from mangrove.configuration.setting import (
    Flag,
    SettingCategory,
    SettingGroup,
    address,
    line,
    number,
    switch,
    text,
)

PUBLIC, PRIVATE = Flag.PUBLIC, Flag.PRIVATE
MIB = 1 << 20
MIN_SFTP_TEMPORARY_MIB = 8  # the unit of the limits of temporary files
MAX_SFTP_MIB = 1 << 20  # the largest limit that can be set: 1 TiB


class S3Server(SettingGroup):
    """The S3 server."""

    group = SettingCategory.S3

    s3_access_key_id = line("", PRIVATE, "The access key of S3 clients.", absent="S3 server", zh="S3 访问密钥 ID")
    s3_secret_access_key = line("", PRIVATE, "The secret key of S3 clients.", absent="S3 server", zh="S3 访问密钥")
    s3_buckets = line("[]", PRIVATE, "The buckets and their folders, as JSON.", absent="S3 server", zh="S3 存储桶")


class Ftp(SettingGroup):
    """FTP, SFTP and WebDAV."""

    group = SettingCategory.FTP

    ftp_public_host = line(
        "127.0.0.1",
        PRIVATE,
        "Public host name or IP address for passive FTP connections.",
        absent="FTP server",
        zh="FTP 公网地址",
    )
    ftp_pasv_port_map = text(
        "",
        PRIVATE,
        "Ports for passive FTP connections, and the public ports that are forwarded to them.",
        absent="FTP server",
        zh="FTP 被动端口映射",
    )
    ftp_mandatory_tls = switch(
        False, PRIVATE, "Refuse FTP clients that do not use TLS.", absent="FTP server", zh="FTP 强制 TLS"
    )
    ftp_implicit_tls = switch(
        False,
        PRIVATE,
        "Use implicit TLS: the connection of an FTP client starts with TLS.",
        absent="FTP server",
        zh="FTP 隐式 TLS",
    )
    ftp_tls_private_key_path = line(
        "", PRIVATE, "Path of the FTP server's private key.", absent="FTP server", zh="FTP TLS 私钥路径"
    )
    ftp_tls_public_cert_path = line(
        "", PRIVATE, "Path of the FTP server's certificate.", absent="FTP server", zh="FTP TLS 证书路径"
    )
    sftp_disable_password_login = switch(
        False, PRIVATE, "SFTP clients can sign in with keys only, not with passwords.", zh="SFTP 禁用密码登录"
    )


class Protocols(SettingGroup):
    """SFTP and WebDAV."""

    group = SettingCategory.FTP

    sftp_listen = address(
        "",
        PUBLIC,
        "Host and port of the SFTP server, such as 127.0.0.1:5222. Empty: the server is off. Standalone only.",
        zh="SFTP 监听地址",
    )
    sftp_max_temporary_mb_per_user = number(
        1024,
        PRIVATE,
        "Maximum size of the temporary files of one user's SFTP uploads, in MiB. "
        "Beyond it, a file is stored while it is received and has to be sent in order.",
        minimum=MIN_SFTP_TEMPORARY_MIB,
        maximum=MAX_SFTP_MIB,
        unit=MIB,
        zh="每个用户的 SFTP 临时文件上限（MiB）",
    )
    sftp_max_temporary_mb = number(
        4096,
        PRIVATE,
        "Maximum size of the temporary files of all SFTP uploads, in MiB. 256 MiB of the disk always stay free.",
        minimum=MIN_SFTP_TEMPORARY_MIB,
        maximum=MAX_SFTP_MIB,
        unit=MIB,
        zh="SFTP 临时文件总上限（MiB）",
    )
    sftp_max_gap_mb = number(
        512,
        PRIVATE,
        "Maximum size of the gaps in one file over SFTP, in MiB, including sizes that a client sets.",
        minimum=1,
        maximum=MAX_SFTP_MIB,
        unit=MIB,
        zh="SFTP 文件空洞上限（MiB）",
    )
    mcp_enabled = switch(
        False, PRIVATE, "Serve the Model Context Protocol at /mcp, for tokens that include it.", zh="启用 MCP"
    )
    webdav_enabled = switch(True, PUBLIC, "Serve WebDAV at /dav.", zh="启用 WebDAV")
    webdav_allow_http = switch(
        False,
        PRIVATE,
        "Allow WebDAV sign-in over plain HTTP, where passwords are not encrypted.",
        zh="允许 WebDAV 明文 HTTP 登录",
    )
    webdav_infinite_depth = switch(
        False,
        PRIVATE,
        "Allow WebDAV clients to list a folder with all its subfolders in one request.",
        zh="允许 WebDAV 无限深度列出",
    )

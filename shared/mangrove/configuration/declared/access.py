"""Settings of links, sign-in and other protocols."""

from __future__ import annotations

from mangrove.configuration.setting import (
    Flag,
    Group,
    SettingGroup,
    address,
    at_least,
    char_mapping,
    choice,
    line,
    names,
    number,
    patterns,
    switch,
    text,
)

PUBLIC, PRIVATE = Flag.PUBLIC, Flag.PRIVATE
MAX_LINK_HOURS = 876_000  # a hundred years
MIN_TOKEN_LENGTH = 32  # characters; a shorter one that is stored already goes on
MIB = 1 << 20
MIN_SFTP_TEMPORARY_MIB = 8  # by which temporary files are counted
MAX_SFTP_MIB = 1 << 20  # that can be set: 1 TiB
MAX_PASSWORD_MINIMUM = 64  # characters that a password can be required to have
PRIVACY = (
    r"(?:(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]\d|\d)"
    "\n"
    r"(?:[\da-fA-F]{1,4}:){2,7}[\da-fA-F]{1,4}|::(?:[\da-fA-F]{1,4}:){0,6}[\da-fA-F]{1,4}"
    "\n"
    r"(?U)access_token=(.*)&"
)
SHARE_TEXT = (
    "{{creator}} shares {{#each files}}{{this}} {{/each}}: {{base_url}}/@s/{{id}}"
    "{{#if pwd}} password: {{pwd}}{{/if}}{{#if expires}} until {{expires}}{{/if}}"
)


class Global(SettingGroup):
    """Links, names, passwords and sharing."""

    group = Group.GLOBAL

    hide_files = text(
        "/\\/README.md/i",
        PUBLIC,
        "Patterns of paths that front ends do not show, one a line. Rules hide them from the interface, too.",
        zh="隐藏文件",
    )
    package_download = switch(
        True, PUBLIC, "Whether front ends offer to download several files at once.", zh="允许打包下载"
    )
    customize_head = text(
        "",
        PRIVATE,
        "HTML at the end of the page's head. Scripts run for everybody who opens the page.",
        zh="自定义页面头部",
    )
    customize_body = text(
        "",
        PRIVATE,
        "HTML at the end of the page's body. Scripts run for everybody who opens the page.",
        zh="自定义页面内容",
    )
    link_expiration = number(
        0,
        PRIVATE,
        "Hours for which a link is good; 0 is for ever.",
        minimum=0,
        maximum=MAX_LINK_HOURS,
        zh="链接有效期（小时）",
    )
    sign_all = switch(
        True, PRIVATE, "Links to all files carry a signature, without which nobody can open them.", zh="签名所有链接"
    )
    link_follows_user = switch(True, PRIVATE, "A link ends when its user may no longer read.", zh="链接随用户权限失效")
    privacy_regs = patterns(
        PRIVACY,
        PRIVATE,
        "Patterns (RE2), one a line: what they match in a failure's message is shown as stars.",
        zh="隐私过滤正则",
    )
    ocr_api = line(
        "",
        PUBLIC,
        "The address of a service that reads codes in pictures, for front ends of the family.",
        zh="文字识别接口",
    )
    filename_char_mapping = char_mapping(
        '{"/": "|"}',
        PUBLIC,
        "How names of storages are shown, as JSON: text in a name → what stands for it.",
        zh="文件名字符替换",
    )
    forward_direct_link_params = switch(
        False, PUBLIC, "Pass the parameters of a link on to the storage.", zh="转发直链参数"
    )
    ignore_direct_link_params = names(
        "sign,mangrove_ts,openlist_ts,raw",
        PUBLIC,
        "Parameters that are never passed on, with commas between them.",
        zh="忽略的直链参数",
    )
    webauthn_login_enabled = switch(
        False, PUBLIC, "Sign in with a passkey.", absent="WebAuthn", zh="启用 WebAuthn 登录"
    )
    share_preview = switch(False, PUBLIC, "Show shared files.", absent="sharing", zh="分享预览")
    share_archive_preview = switch(
        False, PUBLIC, "Show what is in shared archives.", absent="sharing", zh="分享中预览压缩包"
    )
    share_force_proxy = switch(True, PRIVATE, "Shared files are handed out by this service.", zh="分享强制代理")
    share_summary_content = text(SHARE_TEXT, PUBLIC, "The text that goes with a shared link.", zh="分享说明模板")
    handle_hook_after_writing = switch(
        False,
        PRIVATE,
        "Keep the index up to date with what is written, as auto_update_index does.",
        zh="写入后更新索引",
    )
    handle_hook_rate_limit = number(0, PRIVATE, "Taken and without effect.", zh="更新索引速率限制")
    ignore_system_files = switch(
        False,
        PRIVATE,
        "Refuse uploads of .DS_Store, desktop.ini, Thumbs.db, @eaDir and names that begin with ._.",
        zh="拒绝系统文件",
    )
    min_password_length = number(
        0,
        PUBLIC,
        "Characters that a password must have when it is set; 0 is no bound.",
        minimum=0,
        maximum=MAX_PASSWORD_MINIMUM,
        zh="密码最短长度",
    )
    token = line(
        "",
        PRIVATE,
        "The permanent token, with which programs act as the administrator.",
        check=at_least(MIN_TOKEN_LENGTH, "a token needs at least 32 characters, a shorter one can be guessed"),
        zh="令牌",
        group=Group.SINGLE,
    )
    link_salt = line("", PRIVATE, "Made anew with the token, which ends all links.", zh="链接盐值", group=Group.SINGLE)


class Sso(SettingGroup):
    """Sign-in through another service."""

    group = Group.SSO

    sso_login_enabled = switch(
        False, PUBLIC, "Sign in through another service.", absent="single sign-on", zh="启用单点登录"
    )
    sso_login_platform = choice(
        "", "Casdoor,Github,Microsoft,Google,Dingtalk,OIDC", PUBLIC, "Which service that is.", zh="单点登录平台"
    )
    sso_client_id = line("", PRIVATE, "The name of this site at that service.", zh="单点登录客户端 ID")
    sso_client_secret = line("", PRIVATE, "The secret of this site at that service.", zh="单点登录客户端密钥")
    sso_oidc_username_key = line("name", PRIVATE, "Which field of the answer is the user's name.", zh="OIDC 用户名字段")
    sso_organization_name = line("", PRIVATE, "The organisation at that service.", zh="单点登录组织名称")
    sso_application_name = line("", PRIVATE, "The application at that service.", zh="单点登录应用名称")
    sso_endpoint_name = line("", PRIVATE, "The address of that service.", zh="单点登录端点")
    sso_jwt_public_key = line("", PRIVATE, "The key with which that service signs.", zh="单点登录 JWT 公钥")
    sso_extra_scopes = line(
        "", PRIVATE, "What else is asked of that service, with spaces between.", zh="单点登录附加范围"
    )
    sso_auto_register = switch(
        False,
        PRIVATE,
        "Make an account for who signs in for the first time.",
        absent="single sign-on",
        zh="单点登录自动注册",
    )
    sso_default_dir = line("/", PRIVATE, "The root folder of such an account.", zh="单点登录默认目录")
    sso_default_permission = number(0, PRIVATE, "What such an account may do.", zh="单点登录默认权限")
    sso_compatibility_mode = switch(
        False, PUBLIC, "Redirect as older front ends expect it.", absent="single sign-on", zh="单点登录兼容模式"
    )


class Ldap(SettingGroup):
    """Sign-in through a directory."""

    group = Group.LDAP

    ldap_login_enabled = switch(
        False, PUBLIC, "Sign in with a name and password of a directory.", absent="LDAP", zh="启用 LDAP 登录"
    )
    ldap_server = line("", PRIVATE, "The address of the directory.", zh="LDAP 服务器")
    ldap_skip_tls_verify = switch(
        False, PRIVATE, "Do not check the certificate of the directory.", zh="LDAP 跳过 TLS 验证"
    )
    ldap_manager_dn = line("", PRIVATE, "The name with which the directory is searched.", zh="LDAP 管理员 DN")
    ldap_manager_password = line("", PRIVATE, "The password of that name.", zh="LDAP 管理员密码")
    ldap_user_search_base = line("", PRIVATE, "Where users are searched.", zh="LDAP 用户搜索基准")
    ldap_user_search_filter = line(
        "(uid=%s)", PRIVATE, "How a user is found; %s stands for the name.", zh="LDAP 用户搜索过滤器"
    )
    ldap_default_dir = line("/", PRIVATE, "The root folder of a new account.", zh="LDAP 默认目录")
    ldap_default_permission = number(0, PRIVATE, "What a new account may do.", zh="LDAP 默认权限")
    ldap_login_tips = line(
        "login with ldap", PUBLIC, "What stands beside the form of this sign-in.", zh="LDAP 登录提示"
    )


class S3(SettingGroup):
    """The S3 server."""

    group = Group.S3

    s3_access_key_id = line(
        "", PRIVATE, "The access key of clients that speak S3.", absent="S3 server", zh="S3 访问密钥 ID"
    )
    s3_secret_access_key = line(
        "", PRIVATE, "The secret key of clients that speak S3.", absent="S3 server", zh="S3 访问密钥"
    )
    s3_buckets = line("[]", PRIVATE, "Which folder is which bucket, as JSON.", absent="S3 server", zh="S3 存储桶")


class Ftp(SettingGroup):
    """FTP, SFTP and WebDAV."""

    group = Group.FTP

    ftp_public_host = line(
        "127.0.0.1",
        PRIVATE,
        "The address that FTP clients are told for transfers.",
        absent="FTP server",
        zh="FTP 公网地址",
    )
    ftp_pasv_port_map = text(
        "",
        PRIVATE,
        "Ports for transfers, and the ones outside that lead to them.",
        absent="FTP server",
        zh="FTP 被动端口映射",
    )
    ftp_mandatory_tls = switch(
        False, PRIVATE, "Refuse FTP clients without TLS.", absent="FTP server", zh="FTP 强制 TLS"
    )
    ftp_implicit_tls = switch(
        False, PRIVATE, "Speak TLS with FTP clients from the first byte on.", absent="FTP server", zh="FTP 隐式 TLS"
    )
    ftp_tls_private_key_path = line(
        "", PRIVATE, "The file of the FTP server's private key.", absent="FTP server", zh="FTP TLS 私钥路径"
    )
    ftp_tls_public_cert_path = line(
        "", PRIVATE, "The file of the FTP server's certificate.", absent="FTP server", zh="FTP TLS 证书路径"
    )
    sftp_disable_password_login = switch(
        False, PRIVATE, "Let SFTP clients sign in with keys alone.", zh="SFTP 禁用密码登录"
    )


class Protocols(SettingGroup):
    """SFTP and WebDAV."""

    group = Group.FTP

    sftp_listen = address(
        "",
        PUBLIC,
        "Where SFTP clients are served, as 127.0.0.1:5222; empty: nowhere. On one machine only.",
        zh="SFTP 监听地址",
    )
    sftp_max_temporary_mb_per_user = number(
        1024,
        PRIVATE,
        "MiB of temporary files that one user's open files may have by SFTP. "
        "A file beyond that goes to its storage while it comes, and has to come in order.",
        minimum=MIN_SFTP_TEMPORARY_MIB,
        maximum=MAX_SFTP_MIB,
        unit=MIB,
        zh="每个用户的 SFTP 临时文件上限（MiB）",
    )
    sftp_max_temporary_mb = number(
        4096,
        PRIVATE,
        "MiB of temporary files that the open files of all users may have by SFTP. 256 MiB of the disk stay free.",
        minimum=MIN_SFTP_TEMPORARY_MIB,
        maximum=MAX_SFTP_MIB,
        unit=MIB,
        zh="SFTP 临时文件总上限（MiB）",
    )
    sftp_max_gap_mb = number(
        512,
        PRIVATE,
        "MiB of a file by SFTP that no client has sent: gaps, and sizes that are set.",
        minimum=1,
        maximum=MAX_SFTP_MIB,
        unit=MIB,
        zh="SFTP 文件空洞上限（MiB）",
    )
    webdav_enabled = switch(True, PUBLIC, "Serve WebDAV at /dav.", zh="启用 WebDAV")
    webdav_allow_http = switch(
        False,
        PRIVATE,
        "Let WebDAV clients sign in over plain HTTP, where passwords can be read on the way.",
        zh="允许 WebDAV 明文 HTTP 登录",
    )
    webdav_infinite_depth = switch(
        False,
        PRIVATE,
        "Let WebDAV clients list a folder with all that is below it in one request.",
        zh="允许 WebDAV 无限深度列出",
    )

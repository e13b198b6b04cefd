"""Settings of tasks, search and offline download."""

from __future__ import annotations

from mangrove.configuration.setting import (
    Flag,
    SettingCategory,
    SettingGroup,
    choice,
    line,
    names,
    number,
    paths,
    speed,
    switch,
    text,
)
from mangrove.net.addresses import check_policy_text

PUBLIC, PRIVATE = Flag.PUBLIC, Flag.PRIVATE
MAX_SMALL_FILES = 32  # of one transfer at the same time
MIB = 1 << 20
ENGINES = "database,database_non_full_text,bleve,meilisearch,none"  # the search engines that clients know
NO_INDEX = '{"obj_count":0,"is_done":true,"last_done_time":null,"error":""}'


def _check_engine(value: str) -> None:
    if value not in ENGINES.split(","):
        raise ValueError(f"not support index: {value[:40]}")


class Index(SettingGroup):
    """The search."""

    group = SettingCategory.INDEX

    search_index = choice(
        "none",
        ENGINES,
        PUBLIC,
        "The search index. All values except none mean the same built-in index.",
        check=_check_engine,
        zh="搜索索引",
    )
    auto_update_index = switch(False, PUBLIC, "Update the index when entries change.", zh="自动更新索引")
    ignore_paths = paths("", PRIVATE, "One path per line.", zh="忽略的路径")
    max_index_depth = number(20, PRIVATE, "Max depth of index.", minimum=0, zh="索引最大层数")
    index_progress = text(NO_INDEX, PRIVATE, "Progress of the index.", zh="索引进度", group=SettingCategory.SINGLE)


class Traffic(SettingGroup):
    """Tasks, archives, speed and uploads."""

    group = SettingCategory.TRAFFIC

    offline_download_task_threads_num = number(5, PRIVATE, "Number of concurrent downloads.", zh="离线下载任务线程数")
    offline_download_transfer_task_threads_num = number(
        5, PRIVATE, "Number of downloaded files that are stored concurrently.", zh="离线下载转存任务线程数"
    )
    upload_task_threads_num = number(
        5, PRIVATE, "Number of uploads that are stored concurrently in the background.", zh="上传任务线程数"
    )
    copy_task_threads_num = number(5, PRIVATE, "Number of concurrent copy tasks.", zh="复制任务线程数")
    move_task_threads_num = number(5, PRIVATE, "Number of concurrent move tasks.", zh="移动任务线程数")
    decompress_download_task_threads_num = number(
        5, PRIVATE, "Number of archives that are unpacked concurrently.", zh="解压下载任务线程数"
    )
    decompress_upload_task_threads_num = number(
        5, PRIVATE, "Number of unpacked archives that are stored concurrently.", zh="解压上传任务线程数"
    )
    compress_task_threads_num = number(
        5, PRIVATE, "Number of archives that are packed concurrently.", zh="打包任务线程数"
    )
    small_file_threads_num = number(
        16,
        PRIVATE,
        "Number of small files that one copy or move transfers concurrently, each over its own connection: 1 to 32.",
        minimum=1,
        maximum=MAX_SMALL_FILES,
        zh="同时传输的小文件数",
    )
    archive_max_members = number(
        100000, PRIVATE, "Maximum number of entries of an archive; 0 means no limit.", minimum=0, zh="压缩包最多条目数"
    )
    archive_max_size = number(
        102400,
        PRIVATE,
        "Maximum unpacked size of an archive, in MiB; 0 means no limit.",
        minimum=0,
        unit=MIB,
        zh="解压后最大大小",
    )
    archive_max_ratio = number(
        1000,
        PRIVATE,
        "Maximum ratio of unpacked to packed size, of an archive and of each file in it; 0 means no limit.",
        minimum=0,
        zh="最大压缩比",
    )
    zip_max_files = number(
        100000,
        PRIVATE,
        "Maximum number of files and folders that are packed into one archive; 0 means no limit.",
        minimum=0,
        zh="打包最多条目数",
    )
    zip_max_size = number(
        102400,
        PRIVATE,
        "Maximum size of the files that are packed into one archive, in MiB; 0 means no limit.",
        minimum=0,
        unit=MIB,
        zh="打包最大大小",
    )
    durability = choice(
        "file",
        "process,file",
        PRIVATE,
        "process: a stored file survives a crash of the process. file: it survives a power cut too.",
        zh="写入保障",
    )
    verify_moves = switch(
        True,
        PRIVATE,
        "Read a moved file back from its target before its source is removed, if no checksum proves the copy.",
        zh="移动后校验",
    )
    task_retention_days = number(7, PRIVATE, "Days for which finished tasks are kept.", zh="任务保留天数")
    max_client_download_speed = speed(
        PRIVATE, "KiB per second to all clients together; a negative value means no limit.", zh="客户端最大下载速度"
    )
    max_client_upload_speed = speed(
        PRIVATE, "KiB per second from all clients together; a negative value means no limit.", zh="客户端最大上传速度"
    )
    max_server_download_speed = speed(
        PRIVATE, "KiB per second from all storages together; a negative value means no limit.", zh="服务端最大下载速度"
    )
    max_server_upload_speed = speed(
        PRIVATE, "KiB per second to all storages together; a negative value means no limit.", zh="服务端最大上传速度"
    )
    multipart_enabled = switch(True, PUBLIC, "Allow uploads in parts.", zh="启用分片上传")
    multipart_chunk_size = number(
        10,
        PUBLIC,
        "Size of one part, in MB.",
        minimum=1,
        unit=MIB,
        refusal="multipart chunk size must be a positive integer (MB)",
        zh="分片大小（MB）",
    )


class Offline(SettingGroup):
    """Offline download and its tools."""

    group = SettingCategory.OFFLINE

    aria2_secret = line("", PRIVATE, "The RPC secret of aria2; empty if it has none.", zh="aria2 密钥")
    aria2_http = switch(
        False,
        PRIVATE,
        "Let aria2 download HTTP and HTTPS URLs, if a user chooses it. Otherwise this service downloads them.",
        zh="由 aria2 下载网页地址",
    )
    aria2_uri = line("http://localhost:6800/jsonrpc", PRIVATE, "URL of aria2's RPC interface.", zh="aria2 地址")
    offline_download_max_size = number(
        102400,
        PRIVATE,
        "Maximum size of the download of one URL, in MiB; 0 means no limit.",
        unit=MIB,
        zh="离线下载最大大小",
    )
    offline_download_allowed_hosts = text(
        "",
        PRIVATE,
        "Host names, addresses and networks outside the public internet that offline downloads can reach, "
        "separated by commas or lines.",
        check=check_policy_text,
        zh="离线下载允许访问的主机",
    )
    offline_download_ready = names(
        "",
        PRIVATE,
        "Download tools that answered when they were set up.",
        zh="可用的下载工具",
        group=SettingCategory.SINGLE,
    )
    qbittorrent_seedtime = number(
        0,
        PRIVATE,
        "Minutes for which a finished torrent is seeded; a negative value means forever.",
        zh="qBittorrent 做种时间",
    )
    qbittorrent_url = line(
        "http://localhost:8080/",
        PRIVATE,
        "URL of qBittorrent, with its user name and password.",
        zh="qBittorrent 地址",
    )
    transmission_seedtime = number(
        0,
        PRIVATE,
        "Minutes for which a finished torrent is seeded.",
        absent="Transmission",
        zh="Transmission 做种时间",
    )
    transmission_uri = line(
        "http://localhost:9091/transmission/rpc",
        PRIVATE,
        "URL of Transmission's RPC interface.",
        absent="Transmission",
        zh="Transmission 地址",
    )
